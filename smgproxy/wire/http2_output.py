"""What leaves an HTTP/2 connection: queued as frames, written once a loop turn.

Towards clients the frames are http2_serving.py's, towards workers http2_calling.py's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from smgproxy.core.clock import monotonic
from smgproxy.core.message import Headers

# Body bytes made into frames in one loop turn; the rest waits for the next.
TURN_BYTES = 256 * 1024
# What one of several waiting messages may send before the next has its turn.
SHARE_BYTES = 64 * 1024


class Waiting(Protocol):
    """A message with bytes that wait for a window, or for its turn."""

    @property
    def is_waiting(self) -> bool:
        """Whether there are any."""

    def pump(self, limit_bytes: int) -> int:
        """Send some of them; how many."""


class Backlog:
    """The bytes of one message that its peer's windows did not take, and its end."""

    __slots__ = ("_pieces", "_has_end")

    def __init__(self) -> None:
        self._pieces: deque[memoryview] = deque()
        self._has_end = False

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def keep(self, data: memoryview, end: bool) -> None:
        """Take what waits behind the rest; the end may come with nothing."""
        if data or (end and not self._pieces):
            self._pieces.append(data)
        if end:
            self._has_end = True

    def pump(
        self, out: Http2Output, stream_id: int, limit_bytes: int
    ) -> tuple[int, bool]:
        """Send about ``limit_bytes`` at most: how many it was, and whether the end."""
        pieces, total = self._pieces, 0
        while pieces and total < limit_bytes:
            data = pieces[0]
            piece = data[: limit_bytes - total]
            is_last = self._has_end and len(pieces) == 1
            end = is_last and len(piece) == len(data)
            sent = out.send_body(stream_id, piece, end)
            total += sent
            if sent < len(data):
                pieces[0] = data[sent:]
                if sent < len(piece):
                    break
            else:
                pieces.popleft()
                if end:
                    self._has_end = False
                    return total, True
        return total, False

    def clear(self) -> None:
        """Nothing of it is wanted any more."""
        self._pieces.clear()
        self._has_end = False


class Framer(Protocol):
    """Makes frames, and knows what the peer's windows take."""

    @property
    def max_outbound_frame_size(self) -> int:
        """The longest payload that the peer takes."""

    def local_flow_control_window(self, stream_id: int) -> int:
        """Body bytes that may be sent now."""

    def send_headers(
        self, stream_id: int, headers: Headers, *, end_stream: bool = False
    ) -> Any:
        """Queue a header block."""

    def send_data(
        self, stream_id: int, data: bytes | memoryview, end_stream: bool = False
    ) -> Any:
        """Queue one frame of a body."""

    def increment_flow_control_window(
        self, increment: int, stream_id: int | None = None
    ) -> Any:
        """Queue credit for the peer."""

    def data_to_send(self) -> bytes:
        """All that is queued, and no more of it the next time."""


class Writable(Protocol):
    """A transport, as far as it is written to."""

    def is_closing(self) -> bool:
        """Whether it takes no more."""

    def write(self, data: bytes, /) -> None:
        """Write, or buffer."""

    def get_write_buffer_size(self) -> int:
        """Bytes that are buffered."""


class Http2Output:
    """The sending half of one connection, shared by its streams."""

    __slots__ = (
        "_frames",
        "_call_soon",
        "_is_dirty",
        "_turn_bytes",
        "_is_turn_short",
        "_blocked",
        "_full_since",
        "_unsent_bytes",
        "transport",
        "is_full",
    )

    def __init__(
        self, frames: Framer, call_soon: Callable[[Callable[[], None]], object]
    ) -> None:
        self._frames = frames
        self._call_soon = call_soon
        self._is_dirty = False
        self._turn_bytes = 0
        self._is_turn_short = False  # some bytes wait for nothing but the next turn
        self._blocked: dict[int, Waiting] = {}
        self.transport: Writable | None = None
        self._full_since = 0.0  # when the peer last took a byte while it is full
        self._unsent_bytes = 0
        self.is_full = False  # the peer has yet to read what it was sent

    def pause(self) -> None:
        """The peer reads too slowly."""
        self.is_full = True
        self._full_since = monotonic()

    def is_stuck(self, now: float, limit_secs: float) -> bool:
        """Whether the peer has taken no byte for longer than this; 0 = never."""
        transport = self.transport
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes = unsent
            self._full_since = now
        return bool(limit_secs) and now - self._full_since > limit_secs

    def send_head(self, stream_id: int, fields: Headers, end: bool) -> None:
        """Queue a message's head."""
        self._frames.send_headers(stream_id, fields, end_stream=end)
        self.mark()

    def send_continue(self, stream_id: int) -> None:
        """Tell a client that waits for it to send its body."""
        self.send_head(stream_id, [(b":status", b"100")], False)

    def send_body(self, stream_id: int, data: bytes | memoryview, end: bool) -> int:
        """Queue as much as the peer's windows and this turn take; how much it was."""
        frames = self._frames
        left = room = len(data)
        if left:
            room = 0 if self.is_full else frames.local_flow_control_window(stream_id)
            turn = TURN_BYTES - self._turn_bytes
            if turn < room:
                room = turn
                if left > turn:
                    self._is_turn_short = True
            if room <= 0:
                return 0
        most = frames.max_outbound_frame_size
        if left <= room and left <= most:
            frames.send_data(stream_id, data, end_stream=end)
            sent = left
        else:
            sent, total = 0, min(left, room)
            view = memoryview(data)
            while sent < total:
                piece = view[sent : min(sent + most, total)]
                sent += len(piece)
                frames.send_data(stream_id, piece, end_stream=end and sent == left)
        self._turn_bytes += sent
        self.mark()
        return sent

    def block(self, stream_id: int, message: Waiting) -> None:
        """A message has bytes that wait for a window, or for its turn."""
        self._blocked[stream_id] = message

    def credit(self, stream_id: int, size: int) -> None:
        """Let the peer send so many more bytes of a body."""
        self._frames.increment_flow_control_window(size, stream_id)
        self.mark()

    def forget(self, stream_id: int) -> None:
        """A stream is over; nothing of it waits any more."""
        self._blocked.pop(stream_id, None)

    def send_raw(self, frame: bytes) -> None:
        """Write a frame made elsewhere, behind what is queued."""
        self.flush()
        if self.transport is not None and not self.transport.is_closing():
            self.transport.write(frame)

    def mark(self) -> None:
        """Something was queued: write it at the end of this loop turn."""
        if not self._is_dirty:
            self._is_dirty = True
            self._call_soon(self._turn)

    def flush(self) -> None:
        """Write what is queued."""
        self._turn_bytes = 0
        transport = self.transport
        data = self._frames.data_to_send()
        if data and transport is not None and not transport.is_closing():
            transport.write(data)

    def pump(self, stream_id: int) -> None:
        """One stream's window has opened."""
        message = self._blocked.pop(stream_id, None)
        if message is None:
            return
        sent = message.pump(SHARE_BYTES)
        if message.is_waiting:
            # Behind the others.
            self._blocked[stream_id] = message
            if sent >= SHARE_BYTES:
                self._is_turn_short = True
                self.mark()

    def pump_soon(self) -> None:
        """The connection's window has opened: look once a turn, however often it did.

        Thirteen bytes of a client must not cost a look at all that waits.
        """
        self._is_turn_short = True
        self.mark()

    def pump_all(self) -> None:
        """There is room in the socket, or other settings apply."""
        for stream_id in list(self._blocked):
            self.pump(stream_id)

    def _turn(self) -> None:
        self._is_dirty = False
        self.flush()
        if self._is_turn_short:
            self._is_turn_short = False
            self.pump_all()
