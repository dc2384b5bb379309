"""Request bodies that stream: on to the worker as they come in, read by nobody here.

The worker is chosen from the headers alone. The upload and the answer run side by
side; whichever way the upload ends early, its worker sees a body without an end.
"""

from __future__ import annotations

import asyncio

from smgproxy.admission.budgets import Budgets
from smgproxy.api.endpoints import Endpoint
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyAborted, GatewayError
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.message import RequestHead, ResponseHead, WorkerRequest
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.bodymode import NO_AVAILABLE_WORKER, BodyRules, choose_path
from smgproxy.dispatch.charge import reserve_unread
from smgproxy.dispatch.headers import headers_to_worker
from smgproxy.dispatch.once import Once
from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.calls import Upstream
from smgproxy.upstream.leg import Leg

# The body is not read, so neither is the model's name in it.
_MODEL = "unknown"


class Uploads:
    """Decides which bodies stream, and carries those that do."""

    __slots__ = ("_router", "_upstream", "_rules", "_stats", "_budgets", "_once")

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
        self._once = Once(answers, stats)

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
        self._stats.count_body_path(path.is_streamed, path.reason)
        return routed

    async def forward(
        self, exchange: Exchange, endpoint: Endpoint, routed: RoutingRequest
    ) -> None:
        """One attempt at the picked worker, its answer relayed. Raises GatewayError."""
        assert routed.worker is not None
        try:
            if self._budgets is not None:
                reserve_unread(self._budgets, exchange)
            worker = routed.worker
            self._stats.requests[_MODEL, endpoint.name, False] += 1
            await self._once.attempt(
                exchange,
                endpoint,
                worker,
                _MODEL,
                lambda: self._call(exchange, endpoint, worker),
            )
        finally:
            self._router.release(routed)

    async def _call(
        self, exchange: Exchange, endpoint: Endpoint, worker: Worker
    ) -> tuple[Leg, ResponseHead]:
        head = exchange.head
        assert head.content_length is not None
        headers = headers_to_worker(
            head, exchange.id, worker, None, exchange.has_gateway_key
        )
        try:
            answer = await self._upstream.upload(
                worker,
                WorkerRequest(b"POST", endpoint.path.encode(), headers, model=_MODEL),
                exchange.request,
                head.content_length,
                worker.http_pool.timeout_secs,
            )
        except asyncio.CancelledError:
            if exchange.verdict is Verdict.CLIENT_GONE:
                if exchange.request.delivered < head.content_length:
                    note_departure(exchange, self._stats)
            raise
        # Answered: whether the rest of the upload comes, and when, is the client's
        # affair.
        exchange.request.is_optional = True
        return answer


def note_departure(exchange: Exchange, stats: RouterStats) -> None:
    """The client left within its upload, and that is what is counted."""
    exchange.error_code = BodyAborted.code
    stats.upstream[BodyAborted.status, BodyAborted.code] += 1
