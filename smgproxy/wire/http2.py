"""HTTP/2 frames of a client, cut apart and counted before the h2 library sees them.

h2 keeps the streams, the windows and the header compression. What it leaves to its
user is here: the preface and the first frame, lengths before their bytes have come,
what follows a GOAWAY, and how much of what costs the sender nothing is too much.
"""

from __future__ import annotations

from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# The part of it that reads like the head of an HTTP/1.1 request.
PREFACE_HEAD = PREFACE[:18]

# Frame types and flags (RFC 9113 section 6).
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY = range(8)
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8

# Error codes (RFC 9113 section 7).
NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = range(4)
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL = 5, 6, 7, 8
COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 9, 11

MAX_FRAME_BYTES = 16384  # SETTINGS_MAX_FRAME_SIZE stays at its initial value
HEADER_BYTES = 9
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
        "_max_block_bytes",
        "_allowance",
    )

    def __init__(
        self, max_block_bytes: int, now: float, preface: bytes = PREFACE
    ) -> None:
        self._preface = preface  # what of it is still to come
        self._partial = b""
        self._has_settings = False
        self._block_stream = 0  # whose header block is still open; 0 = none
        self._block_bytes = 0
        self._continuations = 0
        self._max_block_bytes = max_block_bytes
        self._allowance = Allowance(FREE_FRAMES, FREE_FRAMES_PER_SEC, now)

    @property
    def is_mid_head(self) -> bool:
        """Whether the peer owes the rest of the preface, a header block or a frame.

        Not of a DATA frame: how long an upload may take is not for here.
        """
        partial = self._partial
        if self._preface or self._block_stream:
            return True
        return bool(partial) and (len(partial) < HEADER_BYTES or partial[3] != DATA)

    def feed(self, data: bytes, now: float) -> Iterator[Frame]:
        """The frames that are whole now."""
        if self._preface:
            data = self._skip_preface(data)
        if self._partial:
            data = self._partial + data
            self._partial = b""
        at, end = 0, len(data)
        while end - at >= HEADER_BYTES:
            size = int.from_bytes(data[at : at + 3], "big")
            kind, flags = data[at + 3], data[at + 4]
            stream_id = int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF
            self._check(kind, flags, size)
            stop = at + HEADER_BYTES + size
            if stop > end:
                break
            self._count(kind, flags, stream_id, size, now)
            frame = Frame(kind, flags, stream_id, data[at:stop])
            at = stop
            yield frame
        self._partial = data[at:]

    def _skip_preface(self, data: bytes) -> bytes:
        """Section 3.4: these bytes and no others."""
        due = self._preface
        if not due.startswith(data[: len(due)]):
            raise Http2Violation(PROTOCOL_ERROR, "malformed preface")
        self._preface = due[len(data) :]
        return data[len(due) :]

    def _check(self, kind: int, flags: int, size: int) -> None:
        """What a frame's header alone can settle, before its bytes have come."""
        if size > MAX_FRAME_BYTES:
            raise Http2Violation(FRAME_SIZE_ERROR, "frame is too long")
        if not self._has_settings and (kind != SETTINGS or flags & ACK):
            raise Http2Violation(PROTOCOL_ERROR, "the first frame is no SETTINGS")

    def _count(
        self, kind: int, flags: int, stream_id: int, size: int, now: float
    ) -> None:
        """Look at a whole frame: is it where it may be, and not one too many?"""
        if kind == DATA:
            is_free = not size and not flags & END_STREAM
        elif kind == HEADERS or kind == CONTINUATION:
            is_free = False
            self._count_block(kind, flags, stream_id, size)
        else:
            # An unknown type is to be ignored (section 5.5), so it comes for free.
            is_free = kind not in (RST_STREAM, WINDOW_UPDATE, GOAWAY)
            self._has_settings = True
        if self._block_stream and kind not in (HEADERS, CONTINUATION):
            raise Http2Violation(PROTOCOL_ERROR, "frame inside a header block")
        if is_free and not self._allowance.take(now):
            raise Http2Violation(ENHANCE_YOUR_CALM, "too many frames that say nothing")

    def _count_block(self, kind: int, flags: int, stream_id: int, size: int) -> None:
        """One header block: of one stream, in one go, of bounded size (section 4.3)."""
        if kind == HEADERS:
            if self._block_stream:
                raise Http2Violation(PROTOCOL_ERROR, "HEADERS inside a header block")
            self._block_bytes = self._continuations = 0
        else:
            if not self._block_stream or stream_id != self._block_stream:
                raise Http2Violation(PROTOCOL_ERROR, "CONTINUATION of nothing")
            self._continuations += 1
        self._block_bytes += size
        if (
            self._block_bytes > self._max_block_bytes
            or self._continuations > MAX_CONTINUATIONS
        ):
            raise Http2Violation(ENHANCE_YOUR_CALM, "header block is too long")
        self._block_stream = 0 if flags & END_HEADERS else stream_id
