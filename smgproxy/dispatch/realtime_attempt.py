"""One attempt at a labelled worker: picked, counted, and let go of on every path."""

from __future__ import annotations

from types import TracebackType

from smgproxy.api.endpoints import Carried
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import GatewayError, UpstreamError
from smgproxy.core.exchange import Exchange
from smgproxy.core.message import ResponseHead
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.fallback import Fallbacks, Names, asked_of_worker
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.fleet.worker import Worker
from smgproxy.routing.fallback import pick_along
from smgproxy.routing.labelled import LabelledRouter
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.leg import Leg

# Each of them makes something at its worker that is not to be made twice.
_ONE_ATTEMPT = RetryOptions(disable_retries=True)


class Picks:
    """Makes them, each a context to call the worker in."""

    __slots__ = ("router", "answers", "stats", "_fallbacks")

    def __init__(
        self,
        router: LabelledRouter,
        answers: Answers,
        stats: RouterStats,
        fallbacks: Fallbacks | None = None,
    ) -> None:
        self.router = router
        self.answers = answers
        self.stats = stats
        self._fallbacks = fallbacks

    def begin(
        self, exchange: Exchange, endpoint: Carried, model: str, is_stream: bool
    ) -> Attempt:
        """Pick a worker. Raises ModelNotFound and NoAvailableWorkers.

        Where a body that goes on as it is names the model, as for all that is no
        stream, no other one can serve.
        """
        stats = self.stats
        try:
            if is_stream and self._fallbacks is not None:
                served, worker = self._pick_along(exchange, model, self._fallbacks)
            else:
                served, worker = model, self.router.pick(model, monotonic())
        except GatewayError as error:
            label = stats.label(model, False)
            stats.requests[label, endpoint.name, is_stream] += 1
            stats.upstream[error.status, str(error.code)] += 1
            self.answers.note_error(error, label, endpoint)
            raise
        exchange.worker = worker
        label = stats.label(model, True)
        stats.requests[label, endpoint.name, is_stream] += 1
        worker.count_request(asked_of_worker(exchange, label))
        return Attempt(self, worker, served, label, endpoint)

    def _pick_along(
        self, exchange: Exchange, model: str, fallbacks: Fallbacks
    ) -> tuple[str, Worker]:
        """A worker of the model or of its fallbacks, and which of them it is."""
        now = monotonic()
        names = fallbacks.names(model) or Names((model,), model)
        served, worker = pick_along(
            names.models,
            lambda name: self.router.pick(name, now),
            # Sessions are charged to no model's rule, whoever serves them.
            may_serve=lambda name: True,
            is_over=lambda error: False,
        )
        fallbacks.serves(exchange, names, served)
        return served, worker


class Attempt:
    """The worker, from its pick until the answer's last byte, or its failure."""

    __slots__ = (
        *("worker", "model", "_owner", "_label", "_endpoint", "_attempts"),
        *("_began", "_leg", "_status"),
    )

    def __init__(
        self, owner: Picks, worker: Worker, model: str, label: str, endpoint: Carried
    ) -> None:
        self.worker = worker
        self.model = model  # the one that serves
        self._owner = owner
        self._label = label
        self._endpoint = endpoint
        self._attempts = Attempts(_ONE_ATTEMPT)
        self._began = monotonic()
        self._leg: Leg | None = None
        self._status = 0

    def answered(self, leg: Leg, reply: ResponseHead) -> None:
        """The head of the worker's answer came."""
        self._leg = leg
        self._status = reply.status
        self._owner.answers.note_answer(self.worker, reply.status, self._attempts)

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        owner, leg = self._owner, self._leg
        owner.router.release(self.worker)
        if leg is not None and not leg.is_ended:
            leg.abort(UpstreamError("the exchange is over"))
        if error is None:
            secs = monotonic() - self._began
            owner.answers.note_end(self._status, self._label, self._endpoint, secs)
        elif isinstance(error, GatewayError):
            if leg is None:  # one count an attempt: an answer has its own
                owner.stats.upstream[error.status, str(error.code)] += 1
            owner.answers.note_failure(self.worker, error, self._attempts)
            owner.answers.note_error(error, self._label, self._endpoint)
