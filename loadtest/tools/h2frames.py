"""As much of HTTP/2 as a load tool needs (RFC 9113): frames, and windows left open.

A client without limits of its own: it opens every window as wide as it goes and tops
the connection's up, so that what is measured is never held by the one who measures.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import hpack

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
CANCEL = 0x8
MAX_WINDOW = 2**31 - 1
FIRST_WINDOW = 65535
TOP_UP_BYTES = 2**29
_INITIAL_WINDOW_SIZE = 0x4


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def ends_stream(self) -> bool:
        """Whether its sender has no more to say on the stream."""
        if self.kind == RST_STREAM:
            return True
        return self.kind in (DATA, HEADERS) and bool(self.flags & END_STREAM)


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """The bytes of one frame."""
    size = len(payload).to_bytes(3, "big")
    return b"%b%c%c%b%b" % (size, kind, flags, stream.to_bytes(4, "big"), payload)


def reset(stream: int) -> bytes:
    """Take a stream back."""
    return frame(RST_STREAM, 0, stream, CANCEL.to_bytes(4, "big"))


class ClientSide:
    """One connection's bytes: what to send, and what came."""

    __slots__ = ("_pending", "_encoder", "_decoder", "_next_stream", "_owed", "replies")

    def __init__(self) -> None:
        self._pending = b""
        self._encoder = hpack.Encoder()
        self._decoder = hpack.Decoder()
        self._next_stream = 1
        self._owed = 0
        self.replies: list[bytes] = []  # to be sent before anything else

    def opening(self) -> bytes:
        """What a client says first."""
        window = _INITIAL_WINDOW_SIZE.to_bytes(2, "big") + MAX_WINDOW.to_bytes(4, "big")
        return (
            PREFACE + frame(SETTINGS, 0, 0, window) + _credit(MAX_WINDOW - FIRST_WINDOW)
        )

    def post(
        self, port: int, path: str, body: bytes, length: int | None = None
    ) -> tuple[int, bytes]:
        """A new stream's id and its request.

        With a ``length`` beyond the body's the rest is still to come.
        """
        stream, self._next_stream = self._next_stream, self._next_stream + 2
        wanted = len(body) if length is None else length
        fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", f"127.0.0.1:{port}"),
            (":path", path),
            ("content-type", "application/json"),
            ("content-length", str(wanted)),
        ]
        block = self._encoder.encode(fields)
        end = END_STREAM if wanted == len(body) else 0
        head = frame(HEADERS, END_HEADERS, stream, block)
        return stream, head + frame(DATA, end, stream, body)

    def fields(self, head: Frame) -> dict[str, str]:
        """What a head says; must be asked of every HEADERS frame, in order."""
        decoded = self._decoder.decode(head.payload)
        return {str(name): str(value) for name, value in decoded}

    def status(self, head: Frame) -> str:
        """The status of a response; asked instead of `fields`."""
        return self.fields(head).get(":status", "")

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames of streams in ``data``; others are answered in ``replies``."""
        data = self._pending + data
        at = 0
        while len(data) - at >= 9:
            end = at + 9 + int.from_bytes(data[at : at + 3], "big")
            if len(data) < end:
                break
            stream = int.from_bytes(data[at + 5 : at + 9], "big") & MAX_WINDOW
            found = Frame(data[at + 3], data[at + 4], stream, data[at + 9 : end])
            at = end
            if stream:
                self._credit(found)
                yield found
            else:
                self._answer(found)
        self._pending = data[at:]

    def _credit(self, found: Frame) -> None:
        if found.kind == DATA:
            self._owed += len(found.payload)
            if self._owed >= TOP_UP_BYTES:
                self.replies.append(_credit(self._owed))
                self._owed = 0

    def _answer(self, found: Frame) -> None:
        if found.flags & ACK:
            return
        if found.kind == SETTINGS:
            self.replies.append(frame(SETTINGS, ACK, 0))
        elif found.kind == PING:
            self.replies.append(frame(PING, ACK, 0, found.payload))
        elif found.kind == GOAWAY:
            code = int.from_bytes(found.payload[4:8], "big")
            raise ConnectionError(f"GOAWAY, code {code}")


def _credit(size: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, 0, size.to_bytes(4, "big"))
