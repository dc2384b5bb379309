"""One HTTP/2 client connection without a socket or a loop; the tests play the client.

Frames are written with hyperframe and header blocks without a dynamic table, so that
each stands for itself. ``frames`` tells what came back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from unittest import mock

from hpack import Decoder, Encoder, NeverIndexedHeaderTuple
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Sink
from smgproxy.core.turns import ReadTurns
from smgproxy.downstream.http2 import Http2Connection
from smgproxy.downstream.listener import ClientTimeouts, Listener
from smgproxy.wire.http1_request import HeadLimits
from smgproxy.wire.http2 import PREFACE
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport

Fields = Iterable[tuple[bytes, bytes]]
AnyFrame = TypeVar("AnyFrame", bound=Frame)
REQUEST = (
    *((b":method", b"POST"), (b":scheme", b"http")),
    *((b":authority", b"g"), (b":path", b"/a")),
)
HIGH_WATER = 64 * 1024


def block(fields: Fields) -> bytes:
    """A header block that neither uses nor changes the dynamic table."""
    literal = [NeverIndexedHeaderTuple(name, value) for name, value in fields]
    return Encoder().encode(literal, huffman=False)


def with_fields(*fields: tuple[bytes, bytes], **pseudo: bytes | None) -> list[Any]:
    """The usual request with more fields, other pseudo-header fields or fewer."""
    given = {b":" + name.encode(): value for name, value in pseudo.items()}
    usual = [(name, given.pop(name, value)) for name, value in REQUEST]
    return [pair for pair in (*usual, *given.items(), *fields) if pair[1] is not None]


def raw(
    kind: int,
    payload: bytes = b"",
    flags: int = 0,
    stream_id: int = 0,
    size: int | None = None,
) -> bytes:
    """Any frame, sound or not; ``size``: another length than it has."""
    length = len(payload) if size is None else size
    head = length.to_bytes(3, "big") + bytes((kind, flags))
    return head + stream_id.to_bytes(4, "big") + payload


def headers(
    stream_id: int = 1, fields: Fields = REQUEST, end: bool = True, **more: Any
) -> bytes:
    """A request's HEADERS, or trailers."""
    flags = ["END_HEADERS", *(["END_STREAM"] if end else []), *more.pop("flags", [])]
    frame = HeadersFrame(stream_id, block(fields), flags=flags, **more)
    return frame.serialize()


def in_pieces(stream_id: int, whole: bytes, *cuts: int, end: bool = True) -> bytes:
    """A header block as HEADERS and CONTINUATION frames."""
    edges = [0, *cuts, len(whole)]
    pieces = [whole[a:b] for a, b in zip(edges, edges[1:], strict=False)]
    first = HeadersFrame(stream_id, pieces[0], flags=["END_STREAM"] if end else [])
    rest = [ContinuationFrame(stream_id, piece) for piece in pieces[1:]]
    [first, *rest][-1].flags.add("END_HEADERS")
    return b"".join(frame.serialize() for frame in (first, *rest))


def data(
    stream_id: int = 1, body: bytes = b"", end: bool = False, pad: int = 0
) -> bytes:
    """DATA; ``pad`` bytes of padding."""
    flags = [*(["END_STREAM"] if end else []), *(["PADDED"] if pad else [])]
    return DataFrame(stream_id, body, pad_length=pad, flags=flags).serialize()


def settings(**values: int) -> bytes:
    """SETTINGS by their names in hyperframe."""
    pairs = {getattr(SettingsFrame, name.upper()): v for name, v in values.items()}
    return SettingsFrame(0, pairs).serialize()


def rst(stream_id: int = 1, code: int = 8) -> bytes:
    """RST_STREAM, by default with CANCEL."""
    return RstStreamFrame(stream_id, code).serialize()


def ping(payload: bytes = b"12345678") -> bytes:
    """PING that asks for its answer."""
    return PingFrame(0, payload).serialize()


def window(stream_id: int, increment: int) -> bytes:
    """WINDOW_UPDATE, of the connection on stream 0."""
    return raw(8, increment.to_bytes(4, "big"), stream_id=stream_id)


def goaway(last: int = 0, code: int = 0) -> bytes:
    """GOAWAY."""
    return GoAwayFrame(0, last, code).serialize()


HELLO = PREFACE + settings()


class Head(HeadersFrame):
    """HEADERS, and what its block says."""

    fields: dict[bytes, bytes]


class Taken(Sink):
    """Where a request's body goes, and whether it was whole."""

    def __init__(self) -> None:
        super().__init__()
        self.body = b""
        self.is_whole = False
        self.error: Exception | None = None

    def write(self, data: bytes, end: bool = False) -> None:
        assert not self.is_whole
        assert data or end, "a piece of nothing"
        self.body += data
        self.is_whole = end

    def abort(self, error: Exception) -> None:
        self.error = error


class FakeLoop:
    """The part of a loop that a connection uses."""

    def __init__(self) -> None:
        self._soon: deque[Callable[[], object]] = deque()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in the next turn."""
        self._soon.append(callback)

    def turn(self) -> bool:
        """One turn; whether anything was to be done."""
        due = list(self._soon)
        self._soon.clear()
        for callback in due:
            callback()
        return bool(due)


class Http2Room:
    """A listener that only remembers its exchanges, and one connection."""

    def __init__(
        self,
        hello: bytes = HELLO,
        *,
        limits: HeadLimits | None = None,
        can_write_eof: bool = True,
        **timeouts: int,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.bodies: list[Taken] = []
        self.is_joining = True
        self.loop = FakeLoop()
        self.listener = Listener(
            ClientTimeouts(**timeouts), limits or HeadLimits(), self._on_exchange
        )
        self.listener.turns = ReadTurns(self.loop.call_soon)
        with mock.patch.object(asyncio, "get_running_loop", return_value=self.loop):
            self.connection = Http2Connection(self.listener)
        self.transport = FakeTransport(self.connection, can_write_eof=can_write_eof)
        self._unparsed = b""
        self._decoder = Decoder()
        if hello:
            self.says(hello)
            self.frames()

    def _on_exchange(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        self.bodies.append(Taken())
        if self.is_joining:
            exchange.request.join(self.bodies[-1])

    def says(self, *pieces: bytes) -> None:
        """The client sends; each piece is one read and one turn of the loop."""
        for piece in pieces:
            if self.transport.is_closing() or self.transport.is_lost:
                return
            self.transport.peer_sends(piece)
            self.turn()

    def asks(self, *pieces: bytes) -> Exchange:
        """The client sends; the newest exchange."""
        self.says(*(pieces or (headers(),)))
        return self.exchanges[-1]

    def turn(self) -> None:
        """Until nothing is left to be done."""
        for _ in range(100_000):
            if not self.loop.turn():
                break
        else:
            raise AssertionError("the connection never comes to rest")
        self.transport.turn()

    def frames(self) -> list[Frame]:
        """What has reached the client since the last call, header blocks decoded."""
        self._unparsed += self.transport.take_sent()
        found: list[Frame] = []
        while len(self._unparsed) >= 9:
            frame, size = Frame.parse_frame_header(memoryview(self._unparsed[:9]))
            if len(self._unparsed) < 9 + size:
                break
            frame.parse_body(memoryview(self._unparsed[9 : 9 + size]))
            self._unparsed = self._unparsed[9 + size :]
            if isinstance(frame, HeadersFrame):
                head = Head(frame.stream_id, frame.data, flags=list(frame.flags))
                head.fields = dict(self._decoder.decode(frame.data, raw=True))
                frame = head
            found.append(frame)
        return found

    def of_kind(self, kind: type[AnyFrame]) -> list[AnyFrame]:
        """Only the frames of one type; the others are dropped."""
        return [frame for frame in self.frames() if isinstance(frame, kind)]

    def is_open_after(self, clock: FakeClock, secs: float) -> bool:
        """Wind the clock and sweep; whether the connection survived."""
        clock.advance(secs)
        self.connection.sweep(clock.now)
        self.turn()
        return not (self.transport.is_closing() or self.transport.is_eof_written)


def body_of(frames: Iterable[Frame], stream_id: int) -> bytes:
    """What the DATA frames of one stream carry."""
    return b"".join(
        frame.data
        for frame in frames
        if isinstance(frame, DataFrame) and frame.stream_id == stream_id
    )


def ended(frames: Iterable[Frame], stream_id: int) -> bool:
    """Whether the response is whole."""
    return any(f.stream_id == stream_id and "END_STREAM" in f.flags for f in frames)


OPEN = headers(end=False)
EXPECTING = headers(1, with_fields((b"expect", b"100-continue")), end=False)


def upload(stream_id: int, length: int) -> bytes:
    """The head of a sized upload."""
    return headers(
        stream_id, with_fields((b"content-length", b"%d" % length)), end=False
    )


def credit(room: Http2Room) -> dict[int, int]:
    """What the client was newly allowed to send, by stream; 0 is the connection."""
    found: dict[int, int] = {}
    for frame in room.of_kind(WindowUpdateFrame):
        found[frame.stream_id] = found.get(frame.stream_id, 0) + frame.window_increment
    return found
