"""The calling side of one HTTP/2 connection: streams, windows, settings. No I/O.

A proxy's needs towards its workers are few: it opens streams, is never pushed to, and
ends the connection when the other side breaks a rule (RFC 9113 section 5.4.1 lets it,
also where a stream error would do). What a header block says, and whether a body is as
long as announced, is its user's to judge.
"""

from __future__ import annotations

from typing import Protocol

from hpack.exceptions import HPACKError, OversizedHeaderListError

from smgproxy.core.message import Headers
from smgproxy.wire.hpack import PlainEncoder, RememberingDecoder
from smgproxy.wire.http2 import (
    ACK,
    COMPRESSION_ERROR,
    CONNECTION_WINDOW_BYTES,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FLOW_CONTROL_ERROR,
    GOAWAY,
    HEADER_BYTES,
    HEADERS,
    MAX_FRAME_BYTES,
    PING,
    PREFACE,
    PROTOCOL_ERROR,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    STREAM_WINDOW_BYTES,
    WINDOW_UPDATE,
    Frame,
    Http2Violation,
)
from smgproxy.wire.http2_frames import (
    encode_block,
    encode_frame,
    encode_setting,
    frame_header,
    payload_of,
    unpadded,
)

# Section 6.5.2.
_ENABLE_PUSH, _MAX_CONCURRENT_STREAMS, _INITIAL_WINDOW_SIZE = 2, 3, 4
_MAX_FRAME_SIZE, _MAX_HEADER_LIST_SIZE = 5, 6
_MAX_WINDOW = 2**31 - 1
_LAST_STREAM = 2**31 - 1
# Streams that may be opened while the other side has not said how many: what it ought
# to allow at least.
ASSUMED_STREAMS = 100


class CallEvents(Protocol):
    """Who is told what the other side did. Streams that are over are not told of."""

    def on_fields(self, stream_id: int, fields: Headers, end: bool) -> None:
        """A header block: an interim or final head, or trailers."""

    def on_data(self, stream_id: int, data: bytes, end: bool) -> None:
        """Body bytes, maybe none."""

    def on_reset(self, stream_id: int, code: int) -> None:
        """The other side ended a stream."""

    def on_room(self, stream_id: int) -> None:
        """A stream's window has opened; 0: maybe every stream's."""

    def on_settings(self) -> None:
        """Settings came: ``max_streams`` may have changed."""

    def on_goaway(self, last_stream_id: int) -> None:
        """Streams above this one were not looked at, nor will new ones be."""


class _Stream:
    __slots__ = ("out_window", "in_window", "is_sent", "is_received")

    def __init__(self, out_window: int) -> None:
        self.out_window = out_window  # what may still be sent
        self.in_window = STREAM_WINDOW_BYTES  # what may still come
        self.is_sent = False  # we ended our half
        self.is_received = False  # the other side ended its half


class CallingSide:
    """What this side may send, and what that side did; frames in, frames out.

    ``receive`` takes whole frames that passed a FrameReader, which has looked at their
    lengths and taken padding and priority from HEADERS; it raises Http2Violation,
    after which the connection can only be ended. Keeps nothing of a stream that is
    over: what still comes for one is dropped (section 5.4.2).
    """

    __slots__ = (
        "_on",
        "_encoder",
        "_decoder",
        "_streams",
        "_next_id",
        "_queued",
        "_out_window",
        "_in_window",
        "_initial_window",
        "_block",
        "_block_stream",
        "_does_block_end",
        "_has_settings",
        "max_outbound_frame_size",
        "max_streams",
    )

    def __init__(self, on: CallEvents, max_header_bytes: int) -> None:
        self._on = on
        self._encoder = PlainEncoder()
        self._decoder = RememberingDecoder(max_header_bytes)
        self._streams: dict[int, _Stream] = {}
        self._next_id = 1
        self._out_window = self._initial_window = 65535
        self._in_window = CONNECTION_WINDOW_BYTES
        self._block: list[bytes] = []  # of a header block that is not whole
        self._block_stream = 0
        self._does_block_end = False
        self._has_settings = False
        self.max_outbound_frame_size = MAX_FRAME_BYTES
        self.max_streams = ASSUMED_STREAMS
        settings = encode_setting(_ENABLE_PUSH, 0) + encode_setting(
            _MAX_HEADER_LIST_SIZE, max_header_bytes
        )
        self._queued = [PREFACE, encode_frame(SETTINGS, 0, 0, settings)]
        self._credit(0, CONNECTION_WINDOW_BYTES - 65535)

    # -- sending ---------------------------------------------------------------------

    def next_stream_id(self) -> int:
        """The id of the stream to be opened next; 0 when all are used up."""
        return self._next_id if self._next_id <= _LAST_STREAM else 0

    def send_headers(
        self, stream_id: int, headers: Headers, *, end_stream: bool = False
    ) -> None:
        """Open the next stream with a request's head."""
        assert stream_id == self._next_id
        self._next_id += 2
        stream = self._streams[stream_id] = _Stream(self._initial_window)
        stream.is_sent = end_stream
        block = self._encoder.encode(headers)
        flags = END_STREAM if end_stream else 0
        most = self.max_outbound_frame_size
        self._queued.append(encode_block(stream_id, block, flags, most))

    def send_data(
        self, stream_id: int, data: bytes | memoryview, end_stream: bool = False
    ) -> None:
        """One frame of a body, within the window and the longest frame."""
        stream = self._streams[stream_id]
        size = len(data)
        stream.out_window -= size
        self._out_window -= size
        self._queued.append(frame_header(DATA, int(end_stream), stream_id, size))
        # h2's signature; a view of bytes is as good as the bytes to a join.
        self._queued.append(data)  # type: ignore[arg-type]
        if end_stream:
            stream.is_sent = True
            self._drop_if_over(stream_id, stream)

    def reset_stream(self, stream_id: int, code: int) -> None:
        """End a stream from this side; nothing if it is over."""
        if self._streams.pop(stream_id, None) is not None:
            self._queued.append(
                encode_frame(RST_STREAM, 0, stream_id, code.to_bytes(4, "big"))
            )

    def ping(self) -> None:
        """Ask for a sign of life."""
        self._queued.append(encode_frame(PING, 0, 0, b"smgproxy"))

    def local_flow_control_window(self, stream_id: int) -> int:
        """Body bytes that may be sent now; maybe less than none."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else min(stream.out_window, self._out_window)

    def window(self, stream_id: int) -> int:
        """Body bytes that the other side may send of a stream."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.in_window

    def increment_flow_control_window(
        self, increment: int, stream_id: int | None = None
    ) -> None:
        """Let the other side send so much more of a stream."""
        assert stream_id is not None, "the connection's is looked after here"
        stream = self._streams.get(stream_id)
        if stream is not None and not stream.is_received:
            stream.in_window += increment
            self._credit(stream_id, increment)

    @property
    def has_queued(self) -> bool:
        """Whether any frame waits to be sent."""
        return bool(self._queued)

    def data_to_send(self) -> bytes:
        """All that is queued; gone from here."""
        queued = self._queued
        if not queued:
            return b""
        self._queued = []
        return b"".join(queued)

    # -- receiving -------------------------------------------------------------------

    def receive(self, frame: Frame) -> None:
        """Act on one frame, in order. Raises Http2Violation."""
        kind = frame.kind
        if kind == DATA:
            self._on_data(frame)
        elif kind == HEADERS:
            self._on_headers(frame)
        elif kind == WINDOW_UPDATE:
            self._on_window_update(frame)
        elif kind == RST_STREAM:
            code = int.from_bytes(payload_of(frame), "big")
            self._check_opened(frame.stream_id)
            if self._streams.pop(frame.stream_id, None) is not None:
                self._on.on_reset(frame.stream_id, code)
        elif kind == CONTINUATION:
            self._block.append(frame.data[HEADER_BYTES:])
            if frame.flags & END_HEADERS:
                self._take_block()
        elif kind == SETTINGS:
            self._on_settings(frame)
        elif kind == PING:
            data = payload_of(frame)
            if not frame.flags & ACK:
                self._queued.append(encode_frame(PING, ACK, 0, data))
        elif kind == GOAWAY:
            last = int.from_bytes(frame.data[9:13], "big") & _LAST_STREAM
            self._on.on_goaway(last)

    def _on_data(self, frame: Frame) -> None:
        stream_id = frame.stream_id
        size = len(frame.data) - HEADER_BYTES
        self._in_window -= size
        if self._in_window < 0:
            raise Http2Violation(FLOW_CONTROL_ERROR, "more than the windows allow")
        if self._in_window <= CONNECTION_WINDOW_BYTES * 3 // 4:
            self._credit(0, CONNECTION_WINDOW_BYTES - self._in_window)
            self._in_window = CONNECTION_WINDOW_BYTES
        data = unpadded(frame)
        stream = self._receiving(stream_id)
        if stream is None:
            return
        stream.in_window -= size
        if stream.in_window < 0:
            raise Http2Violation(FLOW_CONTROL_ERROR, "more than the window allows")
        end = bool(frame.flags & END_STREAM)
        if end:
            stream.is_received = True
            self._drop_if_over(stream_id, stream)
        self._on.on_data(stream_id, data, end)

    def _on_headers(self, frame: Frame) -> None:
        self._block.append(frame.data[HEADER_BYTES:])
        self._block_stream = frame.stream_id
        self._does_block_end = bool(frame.flags & END_STREAM)
        if frame.flags & END_HEADERS:
            self._take_block()

    def _take_block(self) -> None:
        """A header block is whole; read in any case, as the next one builds on it."""
        blocks = self._block
        block = blocks[0] if len(blocks) == 1 else b"".join(blocks)
        blocks.clear()
        try:
            fields = self._decoder.decode(block, raw=True)
        except OversizedHeaderListError:
            raise Http2Violation(ENHANCE_YOUR_CALM, "head is too long") from None
        except (HPACKError, IndexError) as error:
            raise Http2Violation(COMPRESSION_ERROR, "malformed header block") from error
        stream_id, end = self._block_stream, self._does_block_end
        stream = self._receiving(stream_id)
        if stream is None:
            return
        if end:
            stream.is_received = True
            self._drop_if_over(stream_id, stream)
        # Names and values are bytes when they are asked for raw.
        self._on.on_fields(stream_id, fields, end)  # type: ignore[arg-type]

    def _on_window_update(self, frame: Frame) -> None:
        increment = int.from_bytes(payload_of(frame), "big") & _MAX_WINDOW
        if not increment:
            raise Http2Violation(PROTOCOL_ERROR, "a window opened by nothing")
        stream_id = frame.stream_id
        if not stream_id:
            self._out_window = _opened(self._out_window, increment)
        else:
            self._check_opened(stream_id)
            stream = self._streams.get(stream_id)
            if stream is None:
                return
            stream.out_window = _opened(stream.out_window, increment)
        self._on.on_room(stream_id)

    def _on_settings(self, frame: Frame) -> None:
        payload = frame.data[HEADER_BYTES:]
        if frame.flags & ACK:
            return
        self._queued.append(encode_frame(SETTINGS, ACK, 0, b""))
        if not self._has_settings:
            self._has_settings = True
            self.max_streams = _LAST_STREAM  # until it says otherwise
        for at in range(0, len(payload), 6):
            name = int.from_bytes(payload[at : at + 2], "big")
            self._apply(name, int.from_bytes(payload[at + 2 : at + 6], "big"))
        self._on.on_settings()
        self._on.on_room(0)

    def _apply(self, name: int, value: int) -> None:
        if name == _ENABLE_PUSH and value:
            raise Http2Violation(PROTOCOL_ERROR, "a server that wants to be pushed to")
        if name == _MAX_CONCURRENT_STREAMS:
            self.max_streams = value
        elif name == _INITIAL_WINDOW_SIZE:
            if value > _MAX_WINDOW:
                raise Http2Violation(FLOW_CONTROL_ERROR, "initial window is too large")
            change, self._initial_window = value - self._initial_window, value
            for stream in self._streams.values():
                stream.out_window = _opened(stream.out_window, change)
        elif name == _MAX_FRAME_SIZE:
            if not MAX_FRAME_BYTES <= value < 2**24:
                raise Http2Violation(PROTOCOL_ERROR, "no such maximum frame size")
            self.max_outbound_frame_size = value

    def close(self) -> None:
        """Let go of the one who is told; nothing will be received any more."""
        self._on = None  # type: ignore[assignment]

    # -- inside ----------------------------------------------------------------------

    def _receiving(self, stream_id: int) -> _Stream | None:
        """The stream a message's frame is for; None when it is over."""
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_opened(stream_id)
        elif stream.is_received:
            raise Http2Violation(STREAM_CLOSED, "frame behind the end of its stream")
        return stream

    def _check_opened(self, stream_id: int) -> None:
        if not stream_id & 1 or stream_id >= self._next_id:
            raise Http2Violation(PROTOCOL_ERROR, "frame of a stream nobody opened")

    def _drop_if_over(self, stream_id: int, stream: _Stream) -> None:
        if stream.is_sent and stream.is_received:
            self._streams.pop(stream_id, None)

    def _credit(self, stream_id: int, size: int) -> None:
        self._queued.append(
            encode_frame(WINDOW_UPDATE, 0, stream_id, size.to_bytes(4, "big"))
        )


def _opened(window: int, increment: int) -> int:
    window += increment
    if window > _MAX_WINDOW:
        raise Http2Violation(FLOW_CONTROL_ERROR, "a window beyond 2^31-1")
    return window
