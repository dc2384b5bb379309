"""WebSocket frames on their way through: where they end, and whether they are legal.

A relayed frame is neither decoded nor made anew. Its first two bytes, and its length
where that is longer, are looked at; the payload passes with the mask it came with.
wsproto makes Close frames.
"""

from __future__ import annotations

from wsproto.frame_protocol import FrameProtocol, XorMaskerSimple

NORMAL, GOING_AWAY, PROTOCOL_ERROR, BAD_PAYLOAD = 1000, 1001, 1002, 1007
TOO_BIG, INTERNAL_ERROR = 1009, 1011
# What an API shows for a Close without a code, and for none at all; never sent
# (RFC 6455 section 7.4.1).
NO_STATUS, ABNORMAL = 1005, 1006

_MAX_CONTROL_BYTES = 125  # section 5.5
# Those that mean something and may be sent; from 3000 on they are anybody's (7.4.2).
_CODES = frozenset((1000, 1001, 1002, 1003, *range(1007, 1015)))
_FIN, _RSV1, _RSV23, _OPCODE = 0x80, 0x40, 0x30, 0x0F
_MASKED = 0x80

# What the first byte of a frame means, by what came before it.
_WHOLE, _FIRST, _MIDDLE, _LAST, _CONTROL, _CLOSE = range(6)
_FAULTS = {
    6: "reserved bits are set",
    7: "unknown opcode",
    8: "fragmented control frame",
    9: "continuation of no message",
    10: "new message within a message",
}


class FrameError(Exception):
    """A frame that RFC 6455 forbids.

    ``code`` is the Close code its sender is owed, ``passed`` what came before it and
    may go on.
    """

    def __init__(self, reason: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.reason = reason
        self.code = code
        self.passed = b""


class Closing:
    """What a Close frame says; ``code`` is 1005 when it says nothing."""

    __slots__ = ("code", "reason")

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        self.reason = reason


class FrameWatch:
    """One direction of a session: knows where frames end, and refuses what is none.

    A frame's header goes on only once it is known to be good, and a Close only whole;
    everything else passes as it comes. Behind a Close, or an error, nothing passes.
    """

    __slots__ = (
        *("_is_client", "_idle", "_within", "_rules"),
        *("_left", "_held", "_message_bytes", "_is_over", "closing"),
    )

    def __init__(
        self, *, is_client: bool, has_deflate: bool = False, max_message_bytes: int = 0
    ) -> None:
        """``is_client``: its frames are masked. ``max_message_bytes``: 0 = any,
        else at least what a frame of 7 bits of length holds.
        """
        self._is_client = is_client
        mask, head_bytes = (_MASKED, 6) if is_client else (0, 2)
        most = max_message_bytes or 1 << 63
        self._idle = _TABLES[False, has_deflate], mask, head_bytes, most
        self._within = _TABLES[True, has_deflate], mask, head_bytes, most
        self._rules = self._idle
        self._left = 0  # bytes of the running frame that have yet to come
        # The beginning of a frame, too short to judge; None: there is none. Empty
        # where nothing passes any more.
        self._held: bytes | None = None
        self._message_bytes = 0  # of the fragments so far
        self._is_over = False
        self.closing: Closing | None = None  # set when a Close has passed

    @property
    def is_between(self) -> bool:
        """Whether what has passed ends where a frame does: one may be put in."""
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """What may go on of ``data`` and of what was held. Raises FrameError."""
        size = len(data)
        at = self._left
        if at >= size:
            self._left = at - size
            return data
        if self._held is not None:
            if self._is_over:
                return b""
            data = self._held + data
            self._held = None
            size = len(data)
        table, mask, head_bytes, most = self._rules
        while size - at > 1:
            length = data[at + 1] ^ mask
            # The usual frames, a whole message each, without a call.
            if not table[data[at]]:
                if length < 126:
                    at += head_bytes + length
                    continue
                if length == 126 and size - at > 3:
                    length = data[at + 2] << 8 | data[at + 3]
                    if 125 < length <= most:
                        at += head_bytes + 2 + length
                        continue
                    length = 126
            end = self._walk(data, at, length)
            if end < 0:
                break
            at = end
            table = self._rules[0]
            if self.closing is not None:
                size = at
        if at >= size:
            self._left = at - size
            return data if self.closing is None else data[:size]
        self._left = 0
        self._held = data[at:]
        return data[:at]

    def _walk(self, data: bytes, at: int, length: int) -> int:
        """Where a frame ends that is not the usual kind; -1: too little has come."""
        try:
            return self._end_of(data, at, length)
        except FrameError as error:
            self._end()
            self._left = 0
            error.passed = data[:at]
            raise

    def _end_of(self, data: bytes, at: int, length: int) -> int:
        if length > 127:
            is_masked = bool(data[at + 1] & _MASKED)
            raise FrameError("frame is masked" if is_masked else "frame is not masked")
        table, _, head_bytes, _ = self._rules
        kind = table[data[at]]
        if kind > _CLOSE:
            raise FrameError(_FAULTS[kind])
        if kind >= _CONTROL:
            if length > _MAX_CONTROL_BYTES:
                raise FrameError("control frame is too long")
            end = at + head_bytes + length
            if kind == _CONTROL:
                return end
            return self._take_close(data, at, end)
        if length > 125:
            width = 2 if length == 126 else 8
            if len(data) - at < 2 + width:
                return -1
            head_bytes += width
            length = _long_length(data[at + 2 : at + 2 + width])
        self._count(kind, length)
        return at + head_bytes + length

    def _count(self, kind: int, length: int) -> None:
        """A frame of a message: how long that is by now, and whether it goes on."""
        if kind == _MIDDLE or kind == _LAST:
            length += self._message_bytes
        if length > self._rules[3]:
            raise FrameError("message is too big", TOO_BIG)
        if kind == _FIRST or kind == _MIDDLE:
            self._message_bytes = length
            self._rules = self._within
        else:
            self._message_bytes = 0
            self._rules = self._idle

    def _take_close(self, data: bytes, at: int, end: int) -> int:
        if len(data) < end:
            return -1
        self.closing = read_close(data[at:end], is_masked=self._is_client)
        self._end()
        return end

    def _end(self) -> None:
        self._is_over = True
        self._held = b""


def read_close(frame: bytes, *, is_masked: bool) -> Closing:
    """What a whole Close frame says. Raises FrameError (section 7.4)."""
    payload: bytes | bytearray = frame[2:]
    if is_masked:
        payload = XorMaskerSimple(frame[2:6]).process(bytearray(frame[6:]))
    if not payload:
        return Closing(NO_STATUS, "")
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or not (code in _CODES or 3000 <= code <= 4999):
        raise FrameError("invalid close code")
    try:
        return Closing(code, payload[2:].decode())
    except UnicodeDecodeError:
        raise FrameError("close reason is not UTF-8", BAD_PAYLOAD) from None


def close_frame(code: int, reason: str = "", *, is_masked: bool) -> bytes:
    """A Close frame; one without payload for 1005. The reason is cut at 123 bytes."""
    maker = FrameProtocol(client=is_masked, extensions=[])
    if code == NO_STATUS:
        return bytes(maker.close())
    return bytes(maker.close(code, reason))


def _long_length(raw: bytes) -> int:
    """A length in two or eight bytes; the shortest form is a must (section 5.2)."""
    length = int.from_bytes(raw, "big")
    if len(raw) == 2:
        if length < 126:
            raise FrameError("length is not in its shortest form")
    elif length >> 63:
        raise FrameError("length is beyond 63 bits")
    elif length < 65536:
        raise FrameError("length is not in its shortest form")
    return length


def _kind_of(first: int, is_within: bool, has_deflate: bool) -> int:
    """What a frame's first byte says, within a message or not (section 5.2, 5.4)."""
    opcode, is_final = first & _OPCODE, bool(first & _FIN)
    is_control = opcode >= 8
    # RFC 7692 section 6: RSV1 marks a message that is compressed, on its first frame.
    may_have_rsv1 = has_deflate and opcode in (1, 2)
    if first & _RSV23 or (first & _RSV1 and not may_have_rsv1):
        return 6
    if opcode not in (0, 1, 2, 8, 9, 10):
        return 7
    if is_control:
        if not is_final:
            return 8
        return _CLOSE if opcode == 8 else _CONTROL
    if opcode == 0:
        if not is_within:
            return 9
        return _LAST if is_final else _MIDDLE
    if is_within:
        return 10
    return _WHOLE if is_final else _FIRST


_TABLES = {
    (is_within, has_deflate): bytes(
        _kind_of(first, is_within, has_deflate) for first in range(256)
    )
    for is_within in (False, True)
    for has_deflate in (False, True)
}
