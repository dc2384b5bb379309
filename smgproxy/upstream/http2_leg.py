"""One stream of a worker's HTTP/2 connection: a request, and its answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smgproxy.core.errors import (
    GatewayError,
    ReplyBroken,
    SendFailed,
    UploadTimeout,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.flow import Hold, Sink
from smgproxy.core.message import Headers
from smgproxy.upstream.leg import Leg
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http2 import FLOWING_WINDOW_BYTES, STREAM_WINDOW_BYTES
from smgproxy.wire.http2_head import check_trailers, response_head
from smgproxy.wire.http2_output import Backlog

if TYPE_CHECKING:
    from smgproxy.upstream.http2 import SharedConnection

_MAX_INTERIM = 32


class Http2Leg(Leg):
    """A leg whose holds are credit that its stream is not given.

    What one read of the socket brings is gathered, and delivered once.
    """

    __slots__ = (
        "_connection",
        "_left",
        "_target_bytes",
        "_pieces",
        "_interims",
        "_has_head",
        "stream_id",
        "upload",
        "has_bytes",
        "is_received",
    )

    def __init__(
        self, connection: SharedConnection, stream_id: int, deadline: float
    ) -> None:
        super().__init__(deadline, connection.loop)
        self._connection: SharedConnection | None = connection
        self._left: int | None = None  # body bytes to come, None = unknown
        # What the worker may send ahead of us.
        self._target_bytes = STREAM_WINDOW_BYTES
        self._pieces: list[bytes] = []
        self._interims = 0
        self._has_head = False
        self.stream_id = stream_id
        self.upload: Http2Upload | None = None  # the request's body, until it is sent
        self.has_bytes = False  # the worker has begun to answer
        self.is_received = False  # and has ended its answer

    # -- the consumer's side ---------------------------------------------------------

    def on_wanted(self) -> None:
        """Somebody reads: let the worker send, and wide open."""
        self._target_bytes = FLOWING_WINDOW_BYTES
        self._credit(1)

    def on_resume(self) -> None:
        """There is room again: pay what is owed."""
        self._credit(1)

    def on_abort(self, error: Exception) -> None:
        """Reset the stream, which stops the engine; its neighbours go on."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.cancel(self)

    # -- the connection's side -------------------------------------------------------

    def take_fields(self, fields: Headers, end: bool) -> None:
        """A head, interim or final, or trailers. Raises BadMessage, ReplyBroken."""
        self.has_bytes = True
        if self._has_head:
            check_trailers(fields)
            if not end:
                raise BadMessage("a second head")
        else:
            head = response_head(fields)
            if head.status < 200:
                self._interims += 1
                if end or self._interims > _MAX_INTERIM:
                    raise BadMessage("interim response nobody asked for")
                return
            self._left = head.length
            self._has_head = True
            if not self.head.done():  # given up a moment ago
                self.head.set_result(head)
        if end:
            self._check_length(0, True)
            self.is_received = True

    def take_data(self, data: bytes, end: bool) -> None:
        """Body bytes. Raises BadMessage, ReplyBroken."""
        if not self._has_head:
            raise BadMessage("a body before its head")
        self._check_length(len(data), end)
        if data:
            self._pieces.append(data)
        self.is_received = end

    def pass_on(self) -> None:
        """Deliver what was gathered, if anything was."""
        pieces, end = self._pieces, self.is_received
        if not pieces and not end:
            return
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self.deliver(body, end)
        if not end and not self.is_held:
            self._credit(FLOWING_WINDOW_BYTES // 4)

    def hold_request(self) -> None:
        """The connection takes no more: hold whoever feeds the request's body."""
        if self.upload is not None and self.upload.source is not None:
            self.upload.source.hold(Hold.SINK_FULL)

    def release_request(self) -> None:
        """There is room again."""
        if self.upload is not None and not self.upload.is_waiting:
            self.upload.unhold()

    def lost(
        self, message: str, cause: str, unanswered: type[SendFailed] = SendFailed
    ) -> UpstreamError:
        """The error of a leg that the worker will not answer to the end."""
        return (ReplyBroken if self.has_bytes else unanswered)(message, cause)

    def late(self, message: str) -> UpstreamTimeout:
        """The error of a leg whose time is up."""
        is_starved = self.upload is not None and self.upload.awaits_client
        kind = UploadTimeout if is_starved else UpstreamTimeout
        return kind(message, "operation timed out")

    def detach(self) -> None:
        """The connection carries nothing more of it."""
        self._connection = None

    def fall(self, error: GatewayError) -> None:
        """The attempt failed; what came before is delivered first."""
        self.detach()
        self.pass_on()
        if not self.head.done():
            self.head.set_exception(error)
            # Looked at here, so that a leg nobody waits for any more is no leak.
            self.head.exception()
        self.fail(error)

    # -- inside ----------------------------------------------------------------------

    def _check_length(self, size: int, end: bool) -> None:
        """RFC 9113 section 8.1.1: all DATA together is as long as was announced."""
        left = self._left
        if left is not None:
            self._left = left = left - size
            if left < 0 or (end and left):
                raise ReplyBroken("", "body and content-length differ")

    def _credit(self, least: int) -> None:
        connection, left = self._connection, self._left
        if connection is None or self.is_ended:
            return
        window = connection.calls.window(self.stream_id)
        if left is not None and left <= window:
            return  # the rest fits
        due = self._target_bytes - window
        if due >= least:
            connection.out.credit(self.stream_id, due)


class Http2Upload(Sink):
    """A request's body; what the worker's windows do not take waits here.

    Its head has been sent. Once its connection has let go of it, what is written goes
    nowhere.
    """

    __slots__ = ("_connection", "_leg", "_waiting")

    def __init__(self, connection: SharedConnection, leg: Http2Leg) -> None:
        super().__init__()
        self._connection: SharedConnection | None = connection
        self._leg = leg
        self._waiting = Backlog()

    @property
    def awaits_client(self) -> bool:
        """Whether the next move is its client's."""
        return self.source is not None and self.source.is_awaited

    @property
    def is_waiting(self) -> bool:
        """Whether bytes wait for the worker."""
        return bool(self._waiting)

    def write(self, data: bytes, end: bool = False) -> None:
        """Send what the worker takes; keep the rest, and hold the source."""
        connection = self._connection
        if connection is None or not (data or end):
            return
        if self._waiting:
            self._keep(memoryview(data), end)
            return
        stream_id = self._leg.stream_id
        sent = connection.out.send_body(stream_id, data, end)
        if sent < len(data):
            self._keep(memoryview(data)[sent:], end)
            connection.out.block(stream_id, self)
        elif end:
            self._finish()

    def abort(self, error: Exception) -> None:
        """The client's body broke off: the attempt fails with what broke it."""
        if self._connection is not None:
            self._connection.on_upload_failed(self._leg, error)

    def pump(self, limit_bytes: int) -> int:
        """Send waiting bytes, about ``limit_bytes`` at most; how many it was."""
        connection = self._connection
        if connection is None:
            return 0
        waiting = self._waiting
        total, is_over = waiting.pump(connection.out, self._leg.stream_id, limit_bytes)
        if is_over:
            self._finish()
        elif not waiting and not connection.out.is_full:
            self.unhold()
        return total

    def unhold(self) -> None:
        """Whoever feeds it may go on."""
        if self.source is not None:
            self.source.release(Hold.SINK_FULL)

    def drop(self) -> None:
        """The connection carries no more of it: stop the client's side."""
        self._connection = None
        self._waiting.clear()
        source, self.source = self.source, None
        if source is not None:
            source.abort(UpstreamError("the worker takes no more of the request"))

    def _keep(self, data: memoryview, end: bool) -> None:
        self._waiting.keep(data, end)
        if not end and self.source is not None:
            self.source.hold(Hold.SINK_FULL)

    def _finish(self) -> None:
        """The last byte is queued."""
        self._connection = None
        self._leg.upload = None
        source, self.source = self.source, None
        if source is not None:
            # Nothing is left to hold back, and its client's leaving is to be seen.
            source.release(Hold.SINK_FULL)
