"""HTTP/2 frames of a peer, cut apart and counted before anybody acts on them.

Towards clients http2_serving.py keeps the streams and the windows, with the h2 library,
towards workers http2_calling.py. What is the same for both is here: the preface and the
first frame, lengths before their bytes have come, what follows a GOAWAY, and how much
of what costs the sender nothing is too much. Here is also what h2 gets wrong: error
codes, frames of streams that never were, settings it would remember without a bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from smgproxy.core.turns import LARGE_READ_BYTES, TURN_BYTES

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The part of it that reads like the head of an HTTP/1.1 request.
PREFACE_HEAD = PREFACE[:18]

# Frame types and flags (RFC 9113 section 6).
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = range(8)
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20
_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_OF_THE_CONNECTION = (SETTINGS, PING, GOAWAY)
# Settings that mean something to us (section 6.5.2, RFC 8441 section 3).
_KNOWN_SETTINGS = frozenset((1, 2, 3, 4, 5, 6, 8))

# Error codes (RFC 9113 section 7).
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 5, 6, 7, 8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11

# Small frames are dear for their size: so many at once keep the loop for some 5 ms.
FRAMES_A_TURN = 1000
MAX_FRAME_BYTES = 16384  # SETTINGS_MAX_FRAME_SIZE stays at its initial value
HEADER_BYTES = 9
# What a peer may send of a body before somebody wants it, and beyond that once it
# flows. The connection's own window never stands in the way, so a body that waits is
# in nobody else's.
STREAM_WINDOW_BYTES = 65535
FLOWING_WINDOW_BYTES = 512 * 1024
CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024
# A header block comes in one frame of 16 KiB nearly always.
MAX_CONTINUATIONS = 32
# Frames that carry nothing, or that must be answered: what a client may send of them
# at once, and how fast the allowance comes back. Nobody needs a tenth of it.
FREE_FRAMES = 1000
FREE_FRAMES_PER_SEC = 100.0


class Http2Violation(Exception):
    """The connection has to end with this error code (RFC 9113 section 5.4.1)."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Allowance:
    """A bucket of events that come for free, refilled by time."""

    __slots__ = ("_left", "_most", "_per_sec", "_seen")

    def __init__(self, most: float, per_sec: float, now: float) -> None:
        self._left = self._most = most
        self._per_sec = per_sec
        self._seen = now

    def take(self, now: float) -> bool:
        """Use one; False when there is none."""
        self._left += (now - self._seen) * self._per_sec
        self._seen = now
        if self._left > self._most:
            self._left = self._most
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Frame:
    """One whole frame, its header included in ``data``."""

    __slots__ = ("kind", "flags", "stream_id", "data")

    def __init__(self, kind: int, flags: int, stream_id: int, data: bytes) -> None:
        self.kind = kind
        self.flags = flags
        self.stream_id = stream_id
        self.data = data

    @property
    def increment(self) -> int:
        """What a WINDOW_UPDATE adds."""
        return int.from_bytes(self.data[HEADER_BYTES:], "big") & 0x7FFFFFFF


def goaway(last_stream_id: int, code: int) -> bytes:
    """A GOAWAY frame: no stream above ``last_stream_id`` was or will be served.

    h2's own would end its connection, and with it the streams that still run.
    """
    payload = last_stream_id.to_bytes(4, "big") + code.to_bytes(4, "big")
    return b"\0\0\x08\x07\0\0\0\0\0" + payload


class FrameReader:
    """Cuts one peer's byte stream into frames.

    ``feed`` yields whole frames and raises Http2Violation. Holds less than one frame,
    or one header block, between calls: header blocks are yielded as the frames they
    came in, but counted here, because h2 gathers them.
    """

    __slots__ = (
        "_preface",
        "_partial",
        "_has_settings",
        "_block_bytes",
        "_continuations",
        "_block_stream",
        "_last_stream",
        "_max_block_bytes",
        "_allowance",
        "more_bytes",
    )

    def __init__(
        self,
        max_block_bytes: int,
        now: float,
        preface: bytes = PREFACE,
        free: Allowance | None = None,
    ) -> None:
        """``preface``: nothing from a worker, which opens no streams; how those that
        we open are used is for others to see. ``free``: the frames that say nothing,
        if not what clients may send of them.
        """
        self._preface = preface  # what of it is still to come
        self._partial = b""
        self._has_settings = False
        self._block_stream = 0  # whose header block is still open; 0 = none
        # The highest that was opened.
        self._last_stream = 0 if preface else 2**31 - 1
        self._block_bytes = 0
        self._continuations = 0
        self._max_block_bytes = max_block_bytes
        # For another turn there is, or may be, work of so many bytes; 0 = none.
        self.more_bytes = 0
        self._allowance = free or Allowance(FREE_FRAMES, FREE_FRAMES_PER_SEC, now)

    @property
    def is_mid_head(self) -> bool:
        """Whether the peer owes the rest of the preface, a header block or a frame.

        Not of a DATA frame: how long an upload may take is not for here.
        """
        partial = self._partial
        if self._preface or self._block_stream:
            return True
        return bool(partial) and (len(partial) < HEADER_BYTES or partial[3] != DATA)

    @property
    def is_in_block(self) -> bool:
        """Whether a header block has begun and not ended."""
        return bool(self._block_stream)

    def feed(self, data: bytes, now: float) -> Iterator[Frame]:
        """The frames that are whole now, or the first of very many of them.

        ``more_bytes`` tells of the rest; it comes with the next call, if only of b"".
        Behind a large read, too, others shall have their turn before the next.
        """
        self.more_bytes = len(data) if len(data) >= LARGE_READ_BYTES else 0
        if self._preface:
            data = self._skip_preface(data)
        if self._partial:
            data = self._partial + data
            self._partial = b""
        at, end, left = 0, len(data), FRAMES_A_TURN
        while end - at >= HEADER_BYTES:
            if not left:
                self.more_bytes = TURN_BYTES  # however few: it is frames that take time
                break
            left -= 1
            size = int.from_bytes(data[at : at + 3], "big")
            kind, flags = data[at + 3], data[at + 4]
            stream_id = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
            self._check(kind, flags, stream_id, size)
            stop = at + HEADER_BYTES + size
            if stop > end:
                break
            self._count(kind, flags, stream_id, size, now)
            whole = data[at:stop]
            at = stop
            # An unknown type is to be ignored (section 5.5); h2 would read ALTSVC.
            # Priorities mean nothing to us (section 5.3.2).
            if kind == PRIORITY or kind > CONTINUATION:
                continue
            if kind == SETTINGS:
                whole = _known_settings(whole)
            elif kind == HEADERS and flags & (PADDED | HAS_PRIORITY):
                whole = _plain_headers(whole)
            yield Frame(kind, flags, stream_id, whole)
        self._partial = data[at:]

    def _skip_preface(self, data: bytes) -> bytes:
        """Section 3.4: these bytes and no others."""
        due = self._preface
        if not due.startswith(data[: len(due)]):
            raise Http2Violation(PROTOCOL_ERROR, "malformed preface")
        self._preface = due[len(data) :]
        return data[len(due) :]

    def _check(self, kind: int, flags: int, stream_id: int, size: int) -> None:
        """What a frame's header alone can settle, before its bytes have come."""
        if size > MAX_FRAME_BYTES:
            raise Http2Violation(FRAME_SIZE_ERROR, "frame is too long")
        if not self._has_settings and (kind != SETTINGS or flags & ACK):
            raise Http2Violation(PROTOCOL_ERROR, "the first frame is no SETTINGS")
        if self._block_stream:
            # Section 4.3: one header block is one unit on the wire.
            if kind != CONTINUATION or stream_id != self._block_stream:
                raise Http2Violation(PROTOCOL_ERROR, "frame inside a header block")
        elif kind == CONTINUATION:
            raise Http2Violation(PROTOCOL_ERROR, "CONTINUATION of nothing")
        elif kind != DATA and kind != HEADERS:
            self._check_control(kind, flags, stream_id, size)

    def _check_control(self, kind: int, flags: int, stream_id: int, size: int) -> None:
        """Lengths and streams of the frames that carry no message (section 6)."""
        due = _SIZES.get(kind, size)
        if kind == SETTINGS:
            due = 0 if flags & ACK else size - size % 6
        elif kind == GOAWAY:
            due = max(size, 8)
        if size != due:
            raise Http2Violation(FRAME_SIZE_ERROR, "length of another frame type")
        if kind == PUSH_PROMISE:
            raise Http2Violation(PROTOCOL_ERROR, "a push (section 8.4)")
        if kind in _OF_THE_CONNECTION:
            if stream_id:
                raise Http2Violation(PROTOCOL_ERROR, "frame belongs to no stream")
        elif kind == RST_STREAM or (kind == WINDOW_UPDATE and stream_id):
            # Section 5.1: an idle stream takes neither.
            if not stream_id & 1 or stream_id > self._last_stream:
                raise Http2Violation(PROTOCOL_ERROR, "frame of an idle stream")
        elif kind == PRIORITY and not stream_id:
            raise Http2Violation(PROTOCOL_ERROR, "PRIORITY of no stream")

    def _count(
        self, kind: int, flags: int, stream_id: int, size: int, now: float
    ) -> None:
        """Look at a whole frame: is it one too many?"""
        if kind == DATA:
            is_free = not size and not flags & END_STREAM
        elif kind == HEADERS or kind == CONTINUATION:
            is_free = False
            self._count_block(kind, flags, stream_id, size)
        else:
            is_free = kind != RST_STREAM and kind != WINDOW_UPDATE
            self._has_settings = True
        if is_free and not self._allowance.take(now):
            raise Http2Violation(ENHANCE_YOUR_CALM, "too many frames that say nothing")

    def _count_block(self, kind: int, flags: int, stream_id: int, size: int) -> None:
        """One header block of bounded size."""
        if kind == HEADERS:
            self._block_bytes = self._continuations = 0
            if stream_id > self._last_stream:
                self._last_stream = stream_id
        else:
            self._continuations += 1
        self._block_bytes += size
        if (
            self._block_bytes > self._max_block_bytes
            or self._continuations > MAX_CONTINUATIONS
        ):
            raise Http2Violation(ENHANCE_YOUR_CALM, "header block is too long")
        self._block_stream = 0 if flags & END_HEADERS else stream_id


def _frame(head: bytes, payload: bytes, flags: int) -> bytes:
    """A frame with another payload, and other flags, than the one it came as."""
    return b"%b%c%c%b%b" % (
        len(payload).to_bytes(3, "big"),
        head[3],
        flags,
        head[5:HEADER_BYTES],
        payload,
    )


def _known_settings(frame: bytes) -> bytes:
    """Without those to be ignored (section 6.5.2): h2 would keep 65,530 of them."""
    payload = frame[HEADER_BYTES:]
    pairs = [payload[at : at + 6] for at in range(0, len(payload), 6)]
    known = [p for p in pairs if not p[0] and p[1] in _KNOWN_SETTINGS]
    if len(known) == len(pairs):
        return frame
    return _frame(frame, b"".join(known), frame[4])


def _plain_headers(frame: bytes) -> bytes:
    """Without padding and priority: h2 lets padding reach into the other fields.

    Section 6.2. A stream that depends on itself was an error once; priorities are to
    be ignored now (section 5.3.2).
    """
    flags, at, stop = frame[4], HEADER_BYTES, len(frame)
    start = at + bool(flags & PADDED) + 5 * bool(flags & HAS_PRIORITY)
    if start > stop:
        raise Http2Violation(FRAME_SIZE_ERROR, "frame is too short for its flags")
    if flags & PADDED:
        stop -= frame[at]
        if start > stop:
            raise Http2Violation(PROTOCOL_ERROR, "padding is too long")
    return _frame(frame, frame[start:stop], flags & ~(PADDED | HAS_PRIORITY))
