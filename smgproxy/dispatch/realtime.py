"""GET /v1/realtime: a worker first, then the client's 101, then a session.

The worker's handshake is finished before the client is answered, so whatever goes
wrong until then is an ordinary HTTP answer (ruling 26).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from smgproxy.admission.budgets import Budgets
from smgproxy.api.endpoints import Carried
from smgproxy.api.realtime import PATH, adopt_browser_key, model_of_query, target
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import (
    BadUpgrade,
    ReplyMalformed,
    ShuttingDown,
)
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.message import Headers, ResponseHead, WorkerRequest
from smgproxy.dispatch.charge import reserve_unread
from smgproxy.dispatch.headers import SERVED_MODEL, headers_to_worker
from smgproxy.dispatch.realtime_attempt import Picks
from smgproxy.dispatch.realtime_options import RealtimeOptions
from smgproxy.dispatch.realtime_session import Session
from smgproxy.fleet.worker import Worker
from smgproxy.telemetry.realtime import GATEWAY, RealtimeStats
from smgproxy.upstream.websocket import SocketLeg, WorkerSockets, failure
from smgproxy.wire.websocket import GOING_AWAY, FrameWatch
from smgproxy.wire.websocket_handshake import (
    Agreed,
    BadHandshake,
    Offer,
    answer_fields,
    read_answer,
    read_offer,
    request_fields,
)

_OWN_TO_BODIES = (b"content-type", b"content-length")


class Realtime:
    """Opens sessions, and knows which ones are running."""

    __slots__ = (
        *("endpoint", "stats", "is_draining", "_canonical", "_picks", "_sockets"),
        *("_options", "_budgets", "_loop", "_sessions"),
    )

    def __init__(
        self,
        canonical: Callable[[str], str],
        picks: Picks,
        sockets: WorkerSockets,
        options: RealtimeOptions,
        stats: RealtimeStats,
        loop: asyncio.AbstractEventLoop,
        budgets: Budgets | None = None,
    ) -> None:
        self.endpoint = Carried(PATH, "realtime", self.carry)
        self.stats = stats
        self.is_draining = False  # set when no session may begin any more
        self._canonical = canonical  # what a name of a model stands for
        self._picks = picks
        self._sockets = sockets
        self._options = options
        self._budgets = budgets
        self._loop = loop
        self._sessions: set[Session] = set()

    async def carry(self, exchange: Exchange) -> None:
        """Open a session and see it to its end. Raises GatewayError."""
        if self.is_draining:
            raise ShuttingDown()
        adopt_browser_key(exchange.head)
        model = self._canonical(model_of_query(exchange.head))
        try:
            offer = read_offer(exchange.head)
        except BadHandshake as error:
            raise BadUpgrade(error.reason) from None
        if self._budgets is not None:
            reserve_unread(self._budgets, exchange)
        attempt = self._picks.begin(exchange, self.endpoint, model, True)
        with attempt:
            worker = attempt.worker
            leg, reply = await self._open(exchange, worker, attempt.model, offer)
            attempt.answered(leg, reply)
            if reply.status == 101:
                await self._run(exchange, leg, reply)
            else:
                self.stats.refused += 1
                answers = self._picks.answers
                whole = await answers.collect_reply(worker, leg)
                answers.answer_whole(exchange, worker, reply, whole)

    def sweep(self, now: float) -> None:
        """Look at the deadlines of every session."""
        options = self._options
        for session in list(self._sessions):
            session.sweep(
                now,
                options.realtime_idle_timeout_secs,
                options.realtime_max_session_secs,
            )

    # -- inside ----------------------------------------------------------------------

    async def _open(
        self, exchange: Exchange, worker: Worker, model: str, offer: Offer
    ) -> tuple[SocketLeg, ResponseHead]:
        """Shake hands with the worker; a 101 is one that was checked."""
        nonce, fields = request_fields(offer)
        headers = _headers(exchange, worker, offer) + fields
        request = WorkerRequest(b"GET", target(PATH, model), headers)
        timeout_secs = self._options.realtime_handshake_timeout_secs
        leg, reply = await self._sockets.open(worker, request, timeout_secs)
        if reply.status == 101:
            try:
                reply.headers = _agreed_headers(offer, nonce, reply, exchange)
            except BadHandshake as error:
                text = f"{failure(worker)}: {error.reason}"
                malformed = ReplyMalformed(text, error.reason)
                leg.abort(malformed)
                raise malformed from None
        return leg, reply

    async def _run(
        self,
        exchange: Exchange,
        leg: SocketLeg,
        reply: ResponseHead,
    ) -> None:
        """Answer the client, and relay until the session is over."""
        stats = self.stats
        exchange.commit()
        status = 200 if exchange.head.is_http2 else 101
        # From here on the response and the request are the frames of the session.
        exchange.response.start(ResponseHead(status, reply.headers, None))
        exchange.response.flush()
        has_deflate = reply.get(b"sec-websocket-extensions") is not None
        session = Session(
            exchange, leg, self._watches(has_deflate), stats, self._loop, monotonic()
        )
        self._sessions.add(session)
        stats.open += 1
        stats.opened += 1
        try:
            session.join()
            await session.over
        except asyncio.CancelledError:
            if exchange.verdict is not Verdict.DRAINED:
                session.abandon()
                raise
            reason = "the gateway is shutting down"
            session.end(GOING_AWAY, reason, GOING_AWAY, by=GATEWAY)
        finally:
            stats.open -= 1
            self._sessions.discard(session)

    def _watches(self, has_deflate: bool) -> tuple[FrameWatch, FrameWatch]:
        most = self._options.realtime_max_message_bytes
        client, worker = (
            FrameWatch(
                is_client=is_client, has_deflate=has_deflate, max_message_bytes=most
            )
            for is_client in (True, False)
        )
        return client, worker


def _headers(exchange: Exchange, worker: Worker, offer: Offer) -> Headers:
    """What of the client's head its worker sees, as on every route.

    A key of this gateway that a browser put among the subprotocols stays here.
    """
    headers = headers_to_worker(
        exchange.head, exchange.id, worker, None, exchange.has_gateway_key
    )
    is_ours = offer.has_browser_key and exchange.has_gateway_key
    withheld = set(_OWN_TO_BODIES)
    if is_ours and worker.api_key is None:
        withheld.add(b"authorization")
    return [field for field in headers if field[0] not in withheld]


def _agreed_headers(
    offer: Offer, nonce: bytes, reply: ResponseHead, exchange: Exchange
) -> Headers:
    """The head of the client's answer. Raises BadHandshake."""
    agreed: Agreed = read_answer(offer, nonce, reply)
    fields = [*answer_fields(offer, agreed), (b"x-request-id", exchange.id)]
    if exchange.served_model is not None:
        fields.append((SERVED_MODEL, exchange.served_model))
    return fields
