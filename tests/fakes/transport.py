"""An asyncio transport without a socket, stricter than any real one.

The test plays the peer: ``peer_sends``, ``peer_reads``, ``peer_closes``,
``peer_resets``. What the protocol may not do raises ``Misuse``, an AssertionError, so
that code which survives a RuntimeError fails all the same. What an event loop would do
on its next turn (``connection_lost`` behind a close, bytes that came in during a pause)
happens in ``turn``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

# What the peer's end of the socket takes before bytes stay in the transport's buffer.
UNBOUNDED = 1 << 62


class Misuse(AssertionError):
    """The protocol did what a transport must not be asked to do."""


class FakeTransport(asyncio.Transport):
    """One connection; made with its protocol, which hears ``connection_made`` at once.

    ``syscalls`` holds every write as it left the protocol, one entry a call;
    ``sent`` what has reached the peer. A peer that stalls (``peer_stalls``) leaves
    bytes in the buffer: above ``high_water`` the protocol hears ``pause_writing``
    from inside its own write, at ``low_water`` ``resume_writing``.
    """

    def __init__(
        self,
        protocol: asyncio.Protocol,
        *,
        high_water: int = 64 * 1024,
        low_water: int = 16 * 1024,
        can_write_eof: bool = True,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(
            extra={"peername": ("127.0.0.1", 50000), "socket": None, **(extra or {})}
        )
        self._protocol = protocol
        self._high, self._low = high_water, low_water
        self._can_write_eof = can_write_eof
        self._buffer = bytearray()
        self._room = UNBOUNDED  # bytes the peer will take before it reads again
        self._incoming: deque[bytes | None] = deque()  # None is the peer's FIN
        self._soon: deque[Callable[[], None]] = deque()
        self._is_reading = True
        self._is_in_protocol = False
        self._is_writing_paused = False
        self._has_peer_closed = False
        self._closing_by = ""
        self.syscalls: list[bytes] = []
        self.sent = b""
        # What was asked of the transport and said to the protocol, in order.
        self.events: list[str] = []
        self.is_eof_written = False
        self.is_lost = False
        protocol.connection_made(self)

    # -- the protocol's side ---------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """One system call."""
        self._write(bytes(data), "write")

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        """One system call, however many pieces."""
        self._write(b"".join(list_of_data), "writelines")

    def can_write_eof(self) -> bool:
        """Whether half-closing is possible; false for TLS."""
        return self._can_write_eof

    def write_eof(self) -> None:
        """Half-close: the peer reads the end behind what was written."""
        self._must(self._can_write_eof, "write_eof on a transport that cannot")
        self._must(not self._closing_by, f"write_eof after {self._closing_by}")
        self._must(not self.is_eof_written, "write_eof twice")
        self.is_eof_written = True
        self.events.append("write_eof")

    def pause_reading(self) -> None:
        """Deliver nothing until resume_reading."""
        self._must(not self.is_lost, "pause_reading on a lost connection")
        self._must(self._is_reading, "pause_reading while paused")
        self._is_reading = False
        self.events.append("pause_reading")

    def resume_reading(self) -> None:
        """Deliver again, from the next turn on."""
        self._must(not self._closing_by, f"resume_reading after {self._closing_by}")
        self._must(not self._is_reading, "resume_reading without a pause")
        self._is_reading = True
        self.events.append("resume_reading")

    def is_reading(self) -> bool:
        """Whether the protocol would be given what comes in."""
        return self._is_reading and not self._closing_by

    def close(self) -> None:
        """Send what is buffered, then lose the connection."""
        if not self._closing_by:
            self._closing_by = "close"
            self.events.append("close")
            if not self._buffer:
                self._lose(None)

    def abort(self) -> None:
        """Lose the connection now, the buffer too."""
        if self._closing_by != "abort" and not self.is_lost:
            self._closing_by = "abort"
            self.events.append("abort")
            self._buffer.clear()
            self._lose(None)

    def is_closing(self) -> bool:
        """Whether the protocol or the peer has ended the connection."""
        return bool(self._closing_by)

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """The marks at which writing pauses and resumes."""
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low
        self._must(0 <= self._low <= self._high, "low mark above the high mark")

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """The marks, low first."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Bytes the peer has not taken yet."""
        return len(self._buffer)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another protocol goes on from here."""
        assert isinstance(protocol, asyncio.Protocol)
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Who is told what happens."""
        return self._protocol

    # -- the test's side: the peer ---------------------------------------------------

    def peer_sends(self, *pieces: bytes) -> None:
        """Each piece arrives as one read; while reading is paused they wait."""
        assert not self._has_peer_closed, "the peer has closed"
        assert all(pieces), "an empty read does not happen"
        self._incoming.extend(pieces)
        self._read()

    def peer_closes(self) -> None:
        """The peer's FIN, behind all it sent."""
        assert not self._has_peer_closed, "the peer has closed"
        self._has_peer_closed = True
        self._incoming.append(None)
        self._read()

    def peer_resets(self, error: Exception | None = None) -> None:
        """The peer's RST: buffers are gone on both sides, paused or not."""
        self._has_peer_closed = True
        if not self._closing_by:
            self._closing_by = "the peer's reset"
        self._buffer.clear()
        self._incoming.clear()
        self._lose(error or ConnectionResetError("reset by the peer"))
        self.turn()

    def peer_stalls(self, room: int = 0) -> None:
        """The peer stops reading; its side still takes ``room`` bytes."""
        self._room = room

    def peer_reads(self, size: int | None = None) -> bytes:
        """The peer takes up to ``size`` buffered bytes; None: all, from now on too."""
        taken = bytes(self._buffer[:size])
        del self._buffer[: len(taken)]
        if size is None:
            self._room = UNBOUNDED
        self.sent += taken
        if self._is_writing_paused and len(self._buffer) <= self._low:
            self._is_writing_paused = False
            self.events.append("resume_writing")
            self._protocol.resume_writing()
        if self._closing_by and not self._buffer:
            self._lose(None)
        return taken

    def take_sent(self) -> bytes:
        """What has reached the peer since the last call."""
        sent, self.sent = self.sent, b""
        return sent

    def turn(self) -> None:
        """What the loop does next: paused reads first, then connection_lost."""
        self._read()
        while self._soon:
            self._soon.popleft()()

    @property
    def is_writing_paused(self) -> bool:
        """Whether the protocol was told to stop writing."""
        return self._is_writing_paused

    @property
    def unread(self) -> bytes:
        """What the peer sent and the protocol has not been given."""
        return b"".join(piece for piece in self._incoming if piece is not None)

    # -- inside ----------------------------------------------------------------------

    def _must(self, is_right: bool, what: str) -> None:
        if not is_right:
            raise Misuse(what)

    def _write(self, data: bytes, call: str) -> None:
        self._must(not self.is_lost, f"{call} on a lost connection")
        self._must(not self._closing_by, f"{call} after {self._closing_by}")
        self._must(not self.is_eof_written, f"{call} after write_eof")
        self._must(bool(data), f"{call} of nothing")
        self.syscalls.append(data)
        at_once = 0 if self._buffer else min(self._room, len(data))
        self._room -= at_once
        self.sent += data[:at_once]
        self._buffer += data[at_once:]
        if len(self._buffer) > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self.events.append("pause_writing")
            self._protocol.pause_writing()

    def _read(self) -> None:
        assert not self._is_in_protocol, "a read inside a read"
        while self._incoming and self.is_reading():
            data = self._incoming.popleft()
            self._is_in_protocol = True
            try:
                if data is not None:
                    self._protocol.data_received(data)
                    continue
                self.events.append("eof_received")
                stays_open = self._protocol.eof_received()
            finally:
                self._is_in_protocol = False
            if not stays_open:
                self.close()

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            self._soon.append(lambda: self._tell_lost(error))

    def _tell_lost(self, error: Exception | None) -> None:
        self.events.append("connection_lost")
        self._protocol.connection_lost(error)
