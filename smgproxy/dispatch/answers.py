"""What becomes of a worker's answer, whichever way the request's body went."""

from __future__ import annotations

import asyncio

from smgproxy.api.endpoints import AnyEndpoint, Carried
from smgproxy.api.replies import JSON
from smgproxy.api.systemone import InvalidDecisionsResponse, SystemOne
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import (
    GatewayError,
    ModelNotFound,
    NoAvailableWorkers,
    OverloadShed,
    ReplyBroken,
    ReplyCutShort,
    ReplyTooLarge,
    UploadTimeout,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.exchange import Exchange, Phase, Verdict
from smgproxy.core.flow import Sink, collect
from smgproxy.core.message import ResponseHead
from smgproxy.dispatch.charge import TailKeeper, settle
from smgproxy.dispatch.filters import ResliceSink
from smgproxy.dispatch.headers import headers_to_client
from smgproxy.dispatch.held_head import HeldHead
from smgproxy.dispatch.keepalive import KeepAlives, LiveStream
from smgproxy.dispatch.options import DispatchOptions
from smgproxy.dispatch.retry import Attempts
from smgproxy.fleet.worker import Worker
from smgproxy.telemetry.stats import RouterStats
from smgproxy.upstream.leg import Leg
from smgproxy.wire.sse import error_event


class Answers:
    """Counts answers, relays them, and ends those that break."""

    __slots__ = ("_options", "_stats", "_loop", "keepalives")

    def __init__(
        self,
        options: DispatchOptions,
        stats: RouterStats,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._options = options
        self._stats = stats
        self._loop = loop
        self.keepalives = KeepAlives(options.sse_keepalive_secs)

    def note_answer(self, worker: Worker, status: int, attempts: Attempts) -> None:
        """A worker's response head came."""
        self._stats.upstream[status, ""] += 1
        if status >= 500:
            _charge(worker, _answer_type(status))
        # A failure counts once for a request and worker, a success each time.
        breaker = worker.breaker
        if status in breaker.settings.failure_status_codes:
            if attempts.charges(worker):
                breaker.note_status(status, monotonic())
        elif status not in breaker.settings.capacity_status_codes:
            breaker.note_success()

    def note_failure(
        self, worker: Worker, error: GatewayError, attempts: Attempts
    ) -> None:
        """An attempt failed; its worker is charged if it was the worker's fault."""
        if not isinstance(error, UpstreamError) or isinstance(error, UploadTimeout):
            return
        _charge(worker, _error_type(error))
        if attempts.charges(worker):
            worker.breaker.note_failure(monotonic())

    def note_end(
        self, status: int, model: str, endpoint: AnyEndpoint | Carried, secs: float
    ) -> None:
        """A worker's answer was relayed to its end."""
        if status < 400:
            self._stats.durations[model, endpoint.name].observe(secs)
        else:
            self._stats.count_error(model, endpoint.name, _answer_type(status))

    def note_error(
        self, error: GatewayError, model: str, endpoint: AnyEndpoint | Carried
    ) -> None:
        """The request failed."""
        if isinstance(error, OverloadShed):
            self._stats.sheds[error.stage] += 1
        self._stats.count_error(model, endpoint.name, _error_type(error))

    def answer_whole(
        self, exchange: Exchange, worker: Worker, reply: ResponseHead, body: bytes
    ) -> None:
        """Relay a reply that was read to its end, so that a broken one is an error."""
        length, limit = len(body), self._options.max_payload_size
        if length > limit:
            raise _too_large(worker, limit)
        exchange.commit()
        response = exchange.response
        reply.headers = headers_to_client(reply, exchange, worker)
        reply.length = length
        response.start(reply)
        response.write(body, True)
        if exchange.reservation is not None:
            settle(exchange.reservation, reply.status, body)

    async def translate(
        self, worker: Worker, leg: Leg, reply: ResponseHead, told: SystemOne
    ) -> tuple[ResponseHead, bytes]:
        """A reply in the client's words, whole; of its headers nothing is left.

        Raises UpstreamError, before the reply counts for anything: success that
        cannot be understood is a failure.
        """
        body = leg.take_all()
        if body is None:
            body = await self.collect_reply(worker, leg)
        try:
            body = told.answer(reply.status, body)
        except InvalidDecisionsResponse as error:
            error.headers = _routed(worker)
            self._stats.upstream[error.status, str(error.code)] += 1
            raise
        return ResponseHead(reply.status, [(b"content-type", JSON)], None), body

    async def collect_reply(self, worker: Worker, leg: Leg) -> bytes:
        """Wait for the rest of a reply. Raises UpstreamError."""
        limit = self._options.max_payload_size
        try:
            return await collect(leg, limit, lambda: _too_large(worker, limit))
        except ReplyBroken as error:
            raise ReplyCutShort(
                f"Failed to get response body: {error.cause}",
                headers=_routed(worker),
            ) from None
        except UpstreamError as error:
            # Too long, too late or malformed: its head came from this worker.
            error.headers = _routed(worker)
            raise

    async def relay(
        self,
        exchange: Exchange,
        endpoint: AnyEndpoint,
        worker: Worker,
        leg: Leg,
        reply: ResponseHead,
        is_resliced: bool = False,
    ) -> None:
        """Pass the reply on as it comes; ``is_resliced``: with its deltas cut anew."""
        response: Sink = exchange.response
        exchange.done = self._loop.create_future()
        if exchange.ticket is not None and exchange.ticket.holds_head:
            response = HeldHead(exchange)  # commits with the first byte
        else:
            exchange.commit()
        resliced: ResliceSink | None = None
        if is_resliced and _is_plain_events(reply):
            resliced = ResliceSink(response, self._loop.call_later, monotonic)
            reply.length = None
        sink = resliced or response
        headers = headers_to_client(reply, exchange, worker)
        response.start(ResponseHead(reply.status, headers, reply.length))
        is_events = _takes_events(reply)
        live = LiveStream(leg, response, endpoint.is_anthropic, monotonic())
        if is_events:
            self.keepalives.watch(live)
        tail = None if exchange.reservation is None else TailKeeper(sink)
        try:
            leg.join(tail or sink)
            response.flush()
            await exchange.done
            if tail is not None:
                tail.settle(exchange.reservation, reply.status)
        except UpstreamError as error:
            self._end_broken(exchange, endpoint, leg, error, is_events, resliced)
            raise
        except asyncio.CancelledError:
            if exchange.verdict is Verdict.DRAINED:
                stopped = UpstreamError("", "the gateway is shutting down")
                self._end_broken(exchange, endpoint, leg, stopped, is_events, resliced)
            raise
        finally:
            self.keepalives.forget(live)
            if resliced is not None:
                resliced.close()

    def _end_broken(
        self,
        exchange: Exchange,
        endpoint: AnyEndpoint,
        leg: Leg,
        error: UpstreamError,
        is_events: bool,
        resliced: ResliceSink | None,
    ) -> None:
        """End a stream whose worker failed so that its client can tell.

        An event stream gets the contract's error event and a clean end, because SDKs
        show that and only raise on a dropped connection. What cannot take the event
        is cut. While nothing has left there can still be an ordinary answer.
        """
        if exchange.phase != Phase.COMMITTED:
            return
        exchange.error_code = "stream_error"
        exchange.done = None
        tail = leg.tail
        leg.abort(error)
        if resliced is not None:
            resliced.finish()
        if is_events:
            event = error_event(error.cause, tail, endpoint.is_anthropic)
            exchange.response.write(event, True)
        else:
            exchange.response.abort(error)


def _takes_events(reply: ResponseHead) -> bool:
    """Whether events of our own may stand among the worker's.

    Not in a body of a set length, whose end they would push out, nor in a coded one,
    which they would break.
    """
    return reply.length is None and _is_plain_events(reply)


def _is_plain_events(reply: ResponseHead) -> bool:
    """Whether a body is an event stream whose bytes can be read."""
    return reply.is_event_stream and reply.get(b"content-encoding") is None


def _error_type(error: GatewayError) -> str:
    """The ``error_type`` label of a router error."""
    if isinstance(error, (ModelNotFound, NoAvailableWorkers)):
        return "no_workers"
    if isinstance(error, UpstreamTimeout):
        return "timeout"
    if isinstance(error, UpstreamError):
        return "backend_error"
    return "validation_error" if error.status < 500 else "internal_error"


def _answer_type(status: int) -> str:
    """The ``error_type`` label of a worker's own answer that is an error."""
    if status < 500:
        return "validation_error"
    return "timeout" if status == 504 else "backend_error"


def _charge(worker: Worker, error_type: str) -> None:
    """Count against a worker what was its fault."""
    if error_type == "timeout":
        worker.timeouts += 1
    elif error_type == "backend_error":
        worker.backend_errors += 1


def _routed(worker: Worker) -> tuple[tuple[bytes, bytes], ...]:
    """What an error carries that was met while a worker's reply was read."""
    return ((b"x-smg-routed-worker-id", worker.routed_id),)


def _too_large(worker: Worker, limit: int) -> ReplyTooLarge:
    return ReplyTooLarge(
        f"Response from worker exceeded {limit} bytes", headers=_routed(worker)
    )
