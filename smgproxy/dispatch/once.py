"""One attempt at a worker, for requests that are not sent again, and its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from smgproxy.api.endpoints import AnyEndpoint
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import GatewayError, UpstreamError
from smgproxy.core.exchange import Exchange
from smgproxy.core.message import ResponseHead
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.fallback import asked_of_worker
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.fleet.worker import Worker
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.leg import Leg

_ONE_ATTEMPT = RetryOptions(disable_retries=True)

Send = Callable[[], Awaitable[tuple[Leg, ResponseHead]]]


class Once:
    """Makes such attempts, and counts them."""

    __slots__ = ("_answers", "_stats")

    def __init__(self, answers: Answers, stats: RouterStats) -> None:
        self._answers = answers
        self._stats = stats

    async def attempt(
        self,
        exchange: Exchange,
        endpoint: AnyEndpoint,
        worker: Worker,
        model: str,
        send: Send,
    ) -> None:
        """Send, and relay what comes. Raises GatewayError.

        ``model`` is the label it is counted under; the worker stays charged with its
        load, which is its picker's to release.
        """
        answers = self._answers
        began = monotonic()
        leg: Leg | None = None
        attempts = Attempts(_ONE_ATTEMPT)
        exchange.worker = worker
        worker.count_request(asked_of_worker(exchange, model))
        try:
            leg, reply = await send()
            answers.note_answer(worker, reply.status, attempts)
            if reply.is_event_stream:
                await answers.relay(exchange, endpoint, worker, leg, reply)
            else:
                whole = leg.take_all()
                if whole is None:
                    whole = await answers.collect_reply(worker, leg)
                answers.answer_whole(exchange, worker, reply, whole)
        except GatewayError as error:
            if leg is None:  # one count an attempt: an answer has its own
                self._stats.upstream[error.status, str(error.code)] += 1
            answers.note_failure(worker, error, attempts)
            answers.note_error(error, model, endpoint)
            raise
        finally:
            if leg is not None and not leg.is_ended:
                leg.abort(UpstreamError("the exchange is over"))
        answers.note_end(reply.status, model, endpoint, monotonic() - began)
