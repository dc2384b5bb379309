"""Request bodies that stream: on to the worker as they come in, read by nobody here.

The worker is chosen from the headers alone. The upload and the answer run side by
side; whichever way the upload ends early, its worker sees a body without an end.
"""

from __future__ import annotations

import asyncio

from smgproxy.admission.budgets import Budgets
from smgproxy.api.endpoints import Endpoint
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyAborted, GatewayError, UpstreamError
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.message import RequestHead, ResponseHead, WorkerRequest
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.bodymode import NO_AVAILABLE_WORKER, BodyRules, choose_path
from smgproxy.dispatch.charge import reserve_unread
from smgproxy.dispatch.headers import headers_to_worker
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.leg import Leg
from smgproxy.upstream.pool import Upstream

# The body is not read, so neither is the model's name in it.
_MODEL = "unknown"
# What has been passed on cannot be sent again.
_ONE_ATTEMPT = RetryOptions(disable_retries=True)


class Uploads:
    """Decides which bodies stream, and carries those that do."""

    __slots__ = ("_router", "_upstream", "_rules", "_stats", "_budgets", "_answers")

    def __init__(
        self,
        router: Router,
        upstream: Upstream,
        rules: BodyRules,
        stats: RouterStats,
        budgets: Budgets | None,
        answers: Answers,
    ) -> None:
        self._router = router
        self._upstream = upstream
        self._rules = rules
        self._stats = stats
        self._budgets = budgets
        self._answers = answers

    def pick(self, head: RequestHead) -> RoutingRequest | None:
        """Pick the worker that the body streams to; None when it is to be buffered.

        Whoever gets a request back owes it to ``forward``, which releases the worker.
        """
        path = choose_path(head, self._rules, self._router)
        routed = None
        if path.is_streamed:
            try:
                routed = RoutingRequest(None, head.first, monotonic())
                self._router.pick(routed)
            except GatewayError:
                # A buffered body may name a model, and so find the right error.
                routed, path = None, NO_AVAILABLE_WORKER
        self._stats.count_body_path(*path)
        return routed

    async def forward(
        self, exchange: Exchange, endpoint: Endpoint, routed: RoutingRequest
    ) -> None:
        """One attempt at the picked worker, its answer relayed. Raises GatewayError."""
        assert routed.worker is not None
        try:
            if self._budgets is not None:
                reserve_unread(self._budgets, exchange)
            await self._attempt(exchange, endpoint, routed.worker)
        finally:
            self._router.release(routed)

    async def _attempt(
        self, exchange: Exchange, endpoint: Endpoint, worker: Worker
    ) -> None:
        answers = self._answers
        began = monotonic()
        leg: Leg | None = None
        attempts = Attempts(_ONE_ATTEMPT)
        self._stats.count_request(_MODEL, endpoint.name, False)
        exchange.worker = worker
        worker.requests[_MODEL] = worker.requests.get(_MODEL, 0) + 1
        try:
            leg, reply = await self._call(exchange, endpoint, worker)
            # Answered: whether the rest of the upload comes, and when, is the
            # client's affair.
            exchange.request.is_optional = True
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
                self._stats.count_upstream(error.status, str(error.code))
            answers.note_failure(worker, error, attempts)
            answers.note_error(error, _MODEL, endpoint)
            raise
        except asyncio.CancelledError:
            if leg is None and exchange.verdict is Verdict.CLIENT_GONE:
                self._note_departure(exchange)
            raise
        finally:
            if leg is not None and not leg.is_ended:
                leg.abort(UpstreamError("the exchange is over"))
        answers.note_end(reply.status, _MODEL, endpoint, monotonic() - began)

    async def _call(
        self, exchange: Exchange, endpoint: Endpoint, worker: Worker
    ) -> tuple[Leg, ResponseHead]:
        head = exchange.head
        assert head.content_length is not None
        headers = headers_to_worker(
            head, exchange.id, worker, None, exchange.has_gateway_key
        )
        return await self._upstream.upload(
            worker,
            WorkerRequest(b"POST", endpoint.path.encode(), headers),
            exchange.request,
            head.content_length,
            worker.http_pool.timeout_secs,
        )

    def _note_departure(self, exchange: Exchange) -> None:
        """The client left; if within its upload, that is what is counted."""
        length = exchange.head.content_length
        if length is not None and exchange.request.delivered < length:
            exchange.error_code = BodyAborted.code
            self._stats.count_upstream(BodyAborted.status, BodyAborted.code)
