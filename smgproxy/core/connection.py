"""What the protocols of one byte stream share: pauses that add up, and an orderly end.

A protocol of asyncio that owns its whole socket inherits from here. HTTP/2 does not:
it never pauses a connection for the sake of one of its streams.
"""

from __future__ import annotations

import asyncio

from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import ResponseHead
from smgproxy.core.turns import ReadTurns

# Why reading is paused: a source is held; others read first. Protocols add bits of
# their own above these.
BY_SOURCE, BY_TURN = 1, 2


class Connection:
    """A transport that is read while no reason to pause is left.

    ``transport`` is set when the socket is open, and None when it is gone.
    """

    __slots__ = ("transport", "_pauses")

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._pauses = 0

    def pause(self, why: int = BY_SOURCE) -> None:
        """Stop reading for one more reason."""
        transport = self.transport
        if not self._pauses and transport is not None and not transport.is_closing():
            transport.pause_reading()
        self._pauses |= why

    def resume(self, why: int = BY_SOURCE) -> None:
        """Drop one reason; read on when none is left."""
        if self._pauses & why:
            self._pauses &= ~why
            transport = self.transport
            if not self._pauses and transport is not None:
                if not transport.is_closing():
                    self.on_read_on()
                    transport.resume_reading()

    def wait_for_turn(self, turns: ReadTurns, size: int) -> None:
        """Behind a large read, of ``size`` bytes: let others read before the next."""
        self.pause(BY_TURN)
        turns.wait(size, lambda: self.resume(BY_TURN))

    def on_read_on(self) -> None:
        """Reading is about to go on."""

    def half_close(self) -> None:
        """Send no more, but read on, so that the peer's close is seen.

        A whole close would reset the connection if the peer has sent what was not
        read, and could destroy what is on its way to it (RFC 9112 section 9.6).
        """
        transport = self.transport
        if transport is not None and not transport.is_closing():
            self.resume(self._pauses)
            if transport.can_write_eof():
                transport.write_eof()
            else:
                transport.close()


class Socket(Connection):
    """A connection that carries the two bodies of one exchange, and nothing else."""

    __slots__ = ()

    def finish(self) -> None:
        """All is said: half-close, and drop what comes until the peer closes."""
        raise NotImplementedError

    def break_off(self) -> None:
        """No more can be said, and what was is not whole: drop the connection."""
        raise NotImplementedError


class SocketSource(Source):
    """What comes from a socket, as it comes; its holds are pauses of the socket.

    Its heirs keep the socket in a slot of their own, since one is also a leg.
    """

    __slots__ = ()
    _socket: Socket | None

    def deliver(self, data: bytes, end: bool = False) -> None:
        """Pass on bytes; straight, since nobody asks for their number or the last."""
        if end or self._holds or self._backlog or self.is_ended:
            super().deliver(data, end)
        else:
            self._sink.write(data)  # type: ignore[union-attr]

    def on_pause(self) -> None:
        """Stop reading, so that the peer feels that the other side is full."""
        if self._socket is not None:
            self._socket.pause()

    def on_resume(self) -> None:
        """Read on."""
        if self._socket is not None:
            self._socket.resume()

    def detach(self) -> None:
        """Let go of the socket."""
        self._socket = None  # type: ignore[misc]  # a slot of the heirs


class SocketSink(Sink):
    """Bytes to a socket, as they are; ``end`` half-closes behind the last of them."""

    __slots__ = ("_socket",)

    def __init__(self, socket: Socket) -> None:
        super().__init__()
        self._socket: Socket | None = socket

    def start(self, head: ResponseHead) -> None:
        """Nothing: the head has left."""

    def write(self, data: bytes, end: bool = False) -> None:
        """Write at once; nothing when the socket is already going."""
        socket = self._socket
        if socket is not None:
            transport = socket.transport
            if data and transport is not None and not transport.is_closing():
                transport.write(data)
            if end:
                socket.finish()

    def abort(self, error: Exception) -> None:
        """Cut the peer off: there are no bytes that could tell it."""
        if self._socket is not None:
            self._socket.break_off()

    def detach(self) -> None:
        """Let go of the socket."""
        self._socket = None
        self.source = None
