"""One stream of an HTTP/2 client: the body it uploads, and its response."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyAborted, BodyStalled
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.flow import SMALL_BYTES, Hold, Sink, Source
from smgproxy.core.message import RequestHead, ResponseHead
from smgproxy.downstream.date import date
from smgproxy.wire.http2 import FLOWING_WINDOW_BYTES, STREAM_WINDOW_BYTES
from smgproxy.wire.http2_head import response_fields
from smgproxy.wire.http2_output import Backlog

if TYPE_CHECKING:
    from smgproxy.downstream.http2 import Http2Connection
    from smgproxy.downstream.listener import ClientTimeouts


# A client that has sent so much of a body has not opened its stream for nothing.
PAID_BYTES = 1024


class Http2Request(Source):
    """A request body: its holds are credit that its stream is not given."""

    __slots__ = (
        "_connection",
        "_stream_id",
        "_expects_continue",
        "_left",
        "_owed",
        "_is_flowing",
        "is_complete",
        "since",
    )

    small_bytes = SMALL_BYTES

    def __init__(
        self, connection: Http2Connection, stream_id: int, head: RequestHead
    ) -> None:
        super().__init__()
        self._connection: Http2Connection | None = connection
        self._stream_id = stream_id
        self._expects_continue = head.expects_continue
        self._left = head.content_length  # bytes to come, None = unknown
        self._owed = 0  # bytes that came and were not credited
        self._is_flowing = False
        # The client sent its end; one that nobody wanted to the end did not.
        self.is_complete = False
        self.since = monotonic()  # when the client's turn began

    def take(self, data: bytes, size: int, end: bool) -> bool:
        """Body bytes came, ``size`` with padding; False when they are not as announced.

        RFC 9113 section 8.1.1: all DATA together is as long as Content-Length says.
        """
        left = self._left
        if left is not None:
            self._left = left = left - len(data)
            if left < 0 or (end and left):
                return False
        if end:
            self.is_complete = True
        else:
            self._owed += size
        if data or end:
            # DATA of nothing is no sign of life, and no piece: to a sink that writes
            # chunks it would look like the last one.
            self.since = monotonic()
            self.deliver(data, end)
        if not end and not self.is_held:
            self._credit(FLOWING_WINDOW_BYTES // 4)
        return True

    def on_wanted(self) -> None:
        """Somebody reads: let the client send, and wide open."""
        connection = self._connection
        self.since = monotonic()
        if connection is None or self.is_ended:
            return
        if self._expects_continue and not self.delivered:
            self._expects_continue = False
            connection.out.send_continue(self._stream_id)
        if not self._is_flowing:
            self._is_flowing = True
            self._owed += FLOWING_WINDOW_BYTES - STREAM_WINDOW_BYTES
        self._credit(1)

    def on_resume(self) -> None:
        """There is room again: pay what is owed."""
        self.since = monotonic()
        self._credit(1)

    def detach(self) -> None:
        """Let go of the connection."""
        self._connection = None

    def _credit(self, least: int) -> None:
        if self._owed >= least and self._connection is not None and not self.is_ended:
            owed, self._owed = self._owed, 0
            self._connection.out.credit(self._stream_id, owed)


class Http2Response(Sink):
    """The sink of one response; what the client's windows do not take waits here."""

    __slots__ = (
        "_connection",
        "_stream_id",
        "_exchange",
        "_pending",
        "_is_bodiless",
        "_is_head",
        "_waiting",
        "request",
        "since",
    )

    def __init__(
        self, connection: Http2Connection, stream_id: int, request: Http2Request
    ) -> None:
        super().__init__()
        self._connection: Http2Connection | None = connection
        self._stream_id = stream_id
        self._exchange: Exchange | None = None
        self._pending: ResponseHead | None = (
            None  # a head held back until the next call
        )
        self._is_head = False
        self._is_bodiless = False
        self._waiting = Backlog()
        self.request = request
        self.since = 0.0  # when the client last took bytes while others wait

    def belongs_to(self, exchange: Exchange) -> None:
        """Name the exchange whose status and end this sink reports."""
        self._exchange = exchange
        self._is_head = exchange.head.method == "HEAD"

    @property
    def is_waiting(self) -> bool:
        """Whether bytes, or the end, wait for the client."""
        return bool(self._waiting)

    @property
    def is_begun(self) -> bool:
        """Whether anything of the response has left."""
        return self._exchange is not None and self._exchange.committed_at > 0

    @property
    def is_early(self) -> bool:
        """Whether its client, gone now, made work and paid for it with little more
        than a head."""
        request = self.request
        is_cheap = request.is_ended or request.delivered < PAID_BYTES
        return is_cheap and not self.is_begun

    def start(self, head: ResponseHead) -> None:
        """Begin the response."""
        exchange = self._exchange
        if self._connection is None or exchange is None:
            return  # the client left; the bytes that follow are dropped
        exchange.status = status = head.status
        exchange.committed_at = monotonic()
        self._is_bodiless = self._is_head or status == 204 or status == 304
        self._pending = head

    def write(self, data: bytes, end: bool = False) -> None:
        """Send what the client's windows take, keep the rest and hold the source."""
        connection = self._connection
        if connection is None:
            return
        if self._is_bodiless:
            data = b""
        if self._pending is not None:
            self._send_head(connection, end and not data)
            if end and not data:
                self._finish(connection)
                return
        if self.is_waiting:
            self._keep(memoryview(data), end)
            return
        if data or end:
            sent = connection.out.send_body(self._stream_id, data, end)
            if sent < len(data):
                self._keep(memoryview(data)[sent:], end)
                self.since = monotonic()
                connection.out.block(self._stream_id, self)
            elif end:
                self._finish(connection)

    def flush(self) -> None:
        """Send a head that nothing followed yet."""
        if self._pending is not None and self._connection is not None:
            self._send_head(self._connection, False)

    def abort(self, error: Exception) -> None:
        """The body broke: whoever waits for the exchange decides what follows."""
        exchange, connection = self._exchange, self._connection
        if exchange is not None and exchange.done is not None:
            if not exchange.done.done():
                exchange.done.set_exception(error)
        elif connection is not None:
            self.flush()
            self._let_go()
            self.request.detach()
            connection.break_off(self._stream_id)

    def pump(self, limit_bytes: int) -> int:
        """Send waiting bytes, about ``limit_bytes`` at most; how many it was."""
        connection = self._connection
        if connection is None:
            return 0
        waiting = self._waiting
        total, is_over = waiting.pump(connection.out, self._stream_id, limit_bytes)
        if is_over:
            self._finish(connection)
        if total:
            self.since = monotonic()
        if not waiting and self.source is not None and not connection.out.is_full:
            self.source.release(Hold.SINK_FULL)
        return total

    def is_overdue(self, now: float, limits: ClientTimeouts) -> bool:
        """Whether the client has taken no byte for too long.

        An upload that stalls is failed here, and answered; its clock runs only while
        the client is waited for.
        """
        if self.is_waiting:
            limit = limits.client_send_timeout_secs
            return bool(limit) and now - self.since > limit
        request, stall = self.request, limits.stream_body_stall_timeout_secs
        if not request.is_ended and request.is_awaited and not self.is_begun:
            if stall and now - request.since > stall:
                request.fail(BodyStalled(stall))
        return False

    def client_gone(self) -> None:
        """The client reset the stream or left: stop everything, now."""
        exchange, request, source = self._exchange, self.request, self.source
        self._let_go()
        request.detach()
        if source is not None:
            # At once, so that the worker stops now and not a loop turn later.
            source.abort(BodyAborted())
        if exchange is not None:
            exchange.cancel(Verdict.CLIENT_GONE)
        request.abort(BodyAborted())

    def _keep(self, data: memoryview, end: bool) -> None:
        self._waiting.keep(data, end)
        if not end and self.source is not None:
            self.source.hold(Hold.SINK_FULL)

    def _send_head(self, connection: Http2Connection, end: bool) -> None:
        head, self._pending = self._pending, None
        assert head is not None
        fields = response_fields(head, date.value())
        connection.out.send_head(self._stream_id, fields, end)

    def _finish(self, connection: Http2Connection) -> None:
        exchange = self._exchange
        self._let_go()
        if exchange is not None:
            exchange.complete()
        connection.on_response_end(self._stream_id)

    def _let_go(self) -> None:
        self._connection = None
        self._exchange = None
        self._pending = None
        self.source = None
        self._waiting.clear()
