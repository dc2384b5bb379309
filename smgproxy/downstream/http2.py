"""One HTTP/2 client connection: many exchanges, one write a loop turn.

The frames pass wire/http2.py first; wire/http2_serving.py keeps what HTTP/2 asks for.
Reading is never paused for one stream's sake: a body that waits is not given credit.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from h2.exceptions import ProtocolError

from smgproxy.core.clock import monotonic
from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Hold
from smgproxy.core.message import Headers
from smgproxy.downstream.http2_stream import Http2Request, Http2Response
from smgproxy.downstream.peer import address_of
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http2 import (
    CANCEL,
    CONNECTION_WINDOW_BYTES,
    ENHANCE_YOUR_CALM,
    GOAWAY,
    INTERNAL_ERROR,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    WINDOW_UPDATE,
    Allowance,
    Frame,
    FrameReader,
    Http2Violation,
    goaway,
)
from smgproxy.wire.http2_head import check_trailers, request_head
from smgproxy.wire.http2_output import Http2Output
from smgproxy.wire.http2_serving import ServingSide

if TYPE_CHECKING:
    from smgproxy.downstream.listener import Listener

# Answers to frames that need one, unread by the client beyond its responses.
MAX_UNREAD_BYTES = 1024 * 1024
# Streams that a client may take back before they were answered: at once, and for ever.
# Not counted are those whose body was still coming and had cost their sender something.
RESETS = 1000
RESETS_PER_SEC = 100.0
LINGER_SECS = 2.0


class Http2Connection(asyncio.Protocol):
    """A client that speaks HTTP/2, by prior knowledge or as agreed under TLS."""

    __slots__ = (
        "_listener",
        "_side",
        "_reader",
        "_streams",
        "_peer",
        "_owed",
        "_resets",
        "_is_leaving",
        "_closing_since",
        "_idle_since",
        "_head_began",
        "_is_reading_on",
        "_now",
        "transport",
        "out",
    )

    def __init__(self, listener: Listener) -> None:
        now = monotonic()
        self._listener = listener
        max_header_bytes = listener.head_limits.max_header_bytes
        max_streams = listener.timeouts.http2_max_concurrent_streams
        self._side = ServingSide(self, max_streams, max_header_bytes)
        self._reader = FrameReader(max_header_bytes, now)
        self._streams: dict[int, Http2Response] = {}
        self._peer = ""
        self._owed = 0
        self._resets = Allowance(RESETS, RESETS_PER_SEC, now)
        self._is_leaving = False  # no new streams: one side said GOAWAY
        self._closing_since = 0.0  # nothing is read any more
        self._idle_since = now
        self._head_began = now
        self._is_reading_on = False  # frames of the last read wait for the next turn
        self._now = now  # when the last read began
        self.transport: asyncio.Transport | None = None
        self.out = Http2Output(self._side, asyncio.get_running_loop().call_soon)

    # -- asyncio's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected, and is known to speak HTTP/2."""
        listener = self._listener
        self.transport = transport = cast(asyncio.Transport, transport)
        self.out.transport = transport
        self._peer = address_of(transport)
        transport.set_write_buffer_limits(listener.high_water, listener.low_water)
        if not listener.opened(self):
            transport.abort()
            return
        listener.http2.connections += 1
        self.out.mark()

    def data_received(self, data: bytes) -> None:
        """Frames of any streams."""
        transport = self.transport
        if self._closing_since or transport is None:
            return
        self._now = now = monotonic()
        reader = self._reader
        try:
            for frame in reader.feed(data, now):
                if not reader.is_in_block:
                    self._head_began = 0.0
                self._take(frame)
                if self._closing_since:
                    return
            if not reader.is_mid_head:
                self._head_began = 0.0
            elif not self._head_began:
                self._head_began = now
            if (
                self.out.is_full
                and transport.get_write_buffer_size() > MAX_UNREAD_BYTES
            ):
                raise Http2Violation(ENHANCE_YOUR_CALM, "answers are not read")
            if reader.more_bytes and not self._is_reading_on:
                self._is_reading_on = True
                transport.pause_reading()
                turns = self._listener.turns
                assert turns is not None  # whoever accepts has started
                turns.wait(reader.more_bytes, self._read_on)
        except Http2Violation as violation:
            self._end(violation.code)
        except ProtocolError as error:
            self._end(int(error.error_code), is_said=True)
        self.out.mark()

    def eof_received(self) -> bool:
        """The end of the client's byte stream: it is gone (ruling 15)."""
        self._all_gone()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, whoever closed it."""
        self._all_gone()
        self.transport = self.out.transport = None
        self._side.close()
        self._listener.closed(self)

    def pause_writing(self) -> None:
        """The client reads too slowly: hold whoever feeds its responses."""
        self.out.pause()
        for response in list(self._streams.values()):
            if response.source is not None:
                response.source.hold(Hold.SINK_FULL)

    def resume_writing(self) -> None:
        """There is room again."""
        self.out.is_full = False
        self.out.pump_all()
        for response in list(self._streams.values()):
            if response.source is not None and not response.is_waiting:
                response.source.release(Hold.SINK_FULL)

    # -- the frames' side ------------------------------------------------------------

    def on_request(self, stream_id: int, fields: Headers, end: bool) -> None:
        """A client opened a stream."""
        listener = self._listener
        most = listener.timeouts.http2_max_concurrent_streams
        if self._is_leaving or len(self._streams) >= most:
            listener.http2.refused += 1
            self._reset(stream_id, REFUSED_STREAM)
            return
        limits = listener.head_limits
        try:
            head = request_head(fields, has_body=not end, limits=limits)
        except BadMessage as error:
            self._refuse(stream_id, error, not end)
            return
        request = Http2Request(self, stream_id, head)
        response = Http2Response(self, stream_id, request)
        exchange = Exchange(head, request, response, self._peer, self._now)
        response.belongs_to(exchange)
        self._streams[stream_id] = response
        listener.on_exchange(exchange)
        if end:
            request.take(b"", 0, True)

    def on_data(self, stream_id: int, data: bytes, size: int, end: bool) -> None:
        """A body goes on."""
        self._owed += size
        if self._owed >= CONNECTION_WINDOW_BYTES // 4:
            owed, self._owed = self._owed, 0
            self._side.increment_flow_control_window(owed)
        response = self._streams.get(stream_id)
        if response is not None and not response.request.take(data, size, end):
            self._malformed(stream_id, response)

    def on_trailers(self, stream_id: int, fields: Headers) -> None:
        """A body ended, with fields that nobody forwards."""
        response = self._streams.get(stream_id)
        if response is None:
            return
        try:
            check_trailers(fields)
        except BadMessage:
            self._malformed(stream_id, response)
            return
        if not response.request.take(b"", 0, True):
            self._malformed(stream_id, response)

    def on_reset(self, stream_id: int, code: int, is_theirs: bool) -> None:
        """A stream is over: taken back, or ended for an error that is its alone."""
        response = self._streams.get(stream_id)
        if response is None:
            return
        if is_theirs:
            self._listener.http2.resets += 1
        else:
            self._listener.http2.count_error(code)
        self._count_early(response)
        self._forget(stream_id)
        response.client_gone()

    def on_room(self, stream_id: int) -> None:
        """A window has opened."""
        if stream_id:
            self.out.pump(stream_id)
        else:
            self.out.pump_soon()

    def on_settings(self) -> None:
        """Other windows, or longer frames."""
        self.out.pump_all()

    # -- the streams' side -----------------------------------------------------------

    def break_off(self, stream_id: int) -> None:
        """A response cannot be completed; its client must not take it for whole."""
        self._reset(stream_id, INTERNAL_ERROR)
        self._forget(stream_id)

    def on_response_end(self, stream_id: int) -> None:
        """A response's last byte is queued."""
        response = self._streams.get(stream_id)
        if response is not None:
            if not response.request.is_complete:
                # The rest of the upload is not wanted (RFC 9113 section 8.1).
                self._reset(stream_id, NO_ERROR)
            response.request.detach()
        self._forget(stream_id)

    # -- the listener's side ---------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Look at the deadlines; called about twice a second."""
        limits = self._listener.timeouts
        if self._closing_since:
            if now - self._closing_since > LINGER_SECS:
                self.cut()
            return
        head, idle = (
            limits.header_read_timeout_secs,
            limits.idle_connection_timeout_secs,
        )
        if head and self._head_began and now - self._head_began > head:
            self.cut()
        elif not self._streams:
            if idle and now - self._idle_since > idle:
                self._leave()
        elif self.out.is_full:
            if self.out.is_stuck(now, limits.client_send_timeout_secs):
                self.cut()
        else:
            for stream_id, response in list(self._streams.items()):
                if response.is_overdue(now, limits):
                    self._drop(stream_id, response, CANCEL)

    def drain(self) -> None:
        """No more streams; close behind those that run."""
        self._leave()

    def cut(self) -> None:
        """Drop the connection at once, unsent bytes included."""
        if self.transport is not None:
            self.transport.abort()

    # -- inside ----------------------------------------------------------------------

    def _take(self, frame: Frame) -> None:
        if frame.kind == GOAWAY:
            # h2 would end the connection; what the client has asked for still runs.
            self._is_leaving = True
            self._close_if_done()
        elif frame.kind == WINDOW_UPDATE and frame.stream_id and not frame.increment:
            # A stream's error (section 6.9); h2 would end the connection.
            if (response := self._streams.get(frame.stream_id)) is not None:
                self._fault(frame.stream_id, response)
        else:
            self._side.receive(frame)

    def _read_on(self) -> None:
        """Another turn for frames that were too many for one."""
        self._is_reading_on = False
        transport = self.transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading()
            self.data_received(b"")

    def _refuse(self, stream_id: int, error: BadMessage, has_body: bool) -> None:
        """A request that will not be served, and nothing else on the connection."""
        self._listener.refused(error.status)
        if error.status == 400:
            self._reset(stream_id, PROTOCOL_ERROR)
            return
        status = b"%d" % error.status
        self.out.send_head(
            stream_id, [(b":status", status), (b"content-length", b"0")], True
        )
        if has_body:
            self._reset(stream_id, NO_ERROR)

    def _malformed(self, stream_id: int, response: Http2Response) -> None:
        """A request turned out to be none (RFC 9113 section 8.1.1)."""
        self._listener.refused(400)
        self._fault(stream_id, response)

    def _fault(self, stream_id: int, response: Http2Response) -> None:
        """The client broke a rule on a stream: the same to it as taking it back."""
        self._count_early(response)
        self._drop(stream_id, response, PROTOCOL_ERROR)

    def _count_early(self, response: Http2Response) -> None:
        """How often a client may make work and not want it. Raises Http2Violation."""
        if response.is_early and not self._resets.take(self._now):
            raise Http2Violation(ENHANCE_YOUR_CALM, "too many streams taken back")

    def _drop(self, stream_id: int, response: Http2Response, code: int) -> None:
        self._reset(stream_id, code)
        self._forget(stream_id)
        response.client_gone()

    def _reset(self, stream_id: int, code: int) -> None:
        self._listener.http2.count_error(code)
        self._side.reset_stream(stream_id, code)
        self.out.mark()

    def _forget(self, stream_id: int) -> None:
        self._streams.pop(stream_id, None)
        self.out.forget(stream_id)
        self._idle_since = monotonic()
        self._close_if_done()

    def _leave(self) -> None:
        """Say that no new stream will be served; close behind those that run."""
        if not self._is_leaving:
            self._is_leaving = True
            self.out.send_raw(goaway(self._side.last_stream_id, NO_ERROR))
        self._close_if_done()

    def _close_if_done(self) -> None:
        if self._is_leaving and not self._streams and not self._closing_since:
            self._linger()

    def _end(self, code: int, is_said: bool = False) -> None:
        """The connection cannot go on (RFC 9113 section 5.4.1)."""
        self._listener.http2.count_error(code)
        if not is_said:
            self.out.send_raw(goaway(self._side.last_stream_id, code))
        self._all_gone()
        self._linger()

    def _linger(self) -> None:
        """Half-close, then read and drop until the client closes or time is up."""
        self._closing_since = monotonic()
        self._is_leaving = True
        self.out.flush()
        transport = self.transport
        if transport is not None and not transport.is_closing():
            if transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()

    def _all_gone(self) -> None:
        streams, self._streams = self._streams, {}
        for stream_id, response in streams.items():
            self.out.forget(stream_id)
            response.client_gone()
