"""A client's connection behind its upgrade: bytes both ways, frames for others to read.

The exchange goes on over it: what the client sends is the exchange's request, and what
is written to the exchange's response goes out as it is.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from smgproxy.core.clock import monotonic
from smgproxy.core.connection import BY_SOURCE, Socket, SocketSink, SocketSource
from smgproxy.core.errors import BodyAborted
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.flow import Hold
from smgproxy.core.turns import LARGE_READ_BYTES
from smgproxy.downstream.peer import has_hung_up

if TYPE_CHECKING:
    from smgproxy.downstream.listener import Listener

# How long a client may take to answer a Close and to leave.
LINGER_SECS = 2.0


class ClientBytes(SocketSource):
    """What the client sends."""

    __slots__ = ("_socket",)

    def __init__(self, socket: ClientSocket) -> None:
        super().__init__()
        self._socket: Socket | None = socket

    def on_abort(self, error: Exception) -> None:
        """Read on, so that the client's leaving is seen."""
        self.on_resume()


class ClientSocket(Socket, asyncio.Protocol):
    """One client that speaks WebSocket."""

    __slots__ = (
        *("_listener", "_exchange", "_source", "_sink"),
        *("_is_full", "_unsent_bytes", "_since", "_lingers_since"),
    )

    def __init__(
        self, listener: Listener, transport: asyncio.Transport, exchange: Exchange
    ) -> None:
        """Takes the exchange's two bodies over."""
        super().__init__()
        self._listener = listener
        self.transport = transport
        self._exchange: Exchange | None = exchange
        self._source = exchange.request = ClientBytes(self)
        self._sink = exchange.response = SocketSink(self)
        self._is_full = False  # the client has yet to read what it was sent
        self._unsent_bytes = 0
        self._since = 0.0  # when it last did, while it is full
        self._lingers_since = 0.0  # when all was said, 0 = not yet

    def begin(self, head: bytes, early: bytes) -> None:
        """Send the 101, and take what the client sent before it had that."""
        self._sink.write(head)
        if early:
            self._source.deliver(early)

    # -- asyncio's side --------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Bytes of frames."""
        if not self._lingers_since:
            self._source.deliver(data)
        if len(data) >= LARGE_READ_BYTES and self._listener.turns is not None:
            self.wait_for_turn(self._listener.turns, len(data))

    def eof_received(self) -> bool:
        """The client will send no more: it is gone (ruling 15)."""
        self._gone()
        return False  # asyncio closes the transport

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, whoever closed it."""
        self._gone()
        self.transport = None
        self._listener.closed(self)

    def pause_writing(self) -> None:
        """The client reads too slowly: hold the worker."""
        self._is_full = True
        self._since = monotonic()
        if self._sink.source is not None:
            self._sink.source.hold(Hold.SINK_FULL)

    def resume_writing(self) -> None:
        """There is room again."""
        self._is_full = False
        if self._sink.source is not None:
            self._sink.source.release(Hold.SINK_FULL)

    # -- the exchange's side ---------------------------------------------------------

    def finish(self) -> None:
        """All is said: half-close, and drop what comes until the client closes."""
        self._lingers_since = monotonic()
        exchange = self._let_go()
        self.half_close()
        if exchange is not None:
            exchange.complete()

    def break_off(self) -> None:
        """Nothing can be said: drop the connection within a frame."""
        exchange = self._let_go()
        if exchange is not None:
            exchange.complete()
        self.cut()

    # -- the listener's side ---------------------------------------------------------

    def sweep(self, now: float) -> None:
        """Look at the deadlines: of a client that does not read, or does not leave."""
        transport = self.transport
        if transport is None:
            return
        if self._lingers_since:
            if now - self._lingers_since > LINGER_SECS:
                self.cut()
            return
        if self._is_full:
            unsent = transport.get_write_buffer_size()
            if unsent != self._unsent_bytes:
                self._unsent_bytes = unsent
                self._since = now
            limit = self._listener.timeouts.client_send_timeout_secs
            if limit and now - self._since > limit:
                self.cut()
        elif self._pauses & BY_SOURCE and has_hung_up(transport):
            # Nothing is read while paused, so the end would go unseen.
            self.cut()

    def drain(self) -> None:
        """A session ends by itself, or when the grace period does."""

    def cut(self) -> None:
        """Drop the connection at once."""
        self._gone()
        if self.transport is not None:
            self.transport.abort()

    # -- inside ----------------------------------------------------------------------

    def _let_go(self) -> Exchange | None:
        """Cut the pointers between this connection and its exchange."""
        exchange, self._exchange = self._exchange, None
        self._source.detach()
        self._sink.detach()
        return exchange

    def _gone(self) -> None:
        """The client left: whoever watches its frames says in what order."""
        if self._exchange is None:
            return
        if not self._source.is_held:
            self._source.deliver(b"", True)
        exchange = self._let_go()
        if exchange is not None:
            exchange.cancel(Verdict.CLIENT_GONE)
            self._source.abort(BodyAborted())
