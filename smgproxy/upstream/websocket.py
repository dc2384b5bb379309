"""A connection to a worker that speaks WebSocket, from its handshake to its end.

It is in no pool: nothing else will ever go over it. Behind the worker's 101 it is
bytes both ways; frames are for others to read.
"""

from __future__ import annotations

import asyncio
from typing import cast

from smgproxy.core.clock import Sweeper, monotonic
from smgproxy.core.connection import Socket, SocketSink, SocketSource
from smgproxy.core.errors import (
    ConnectFailed,
    GatewayError,
    ReplyBroken,
    ReplyMalformed,
    SendFailed,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.flow import Hold
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.core.turns import LARGE_READ_BYTES, ReadTurns
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.dial import dial
from smgproxy.upstream.http1 import HIGH_WATER, LOW_WATER
from smgproxy.upstream.leg import Leg
from smgproxy.upstream.pool import Secure
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http1_response import ResponseReader, encode_request

# How long a worker may take to close behind the last that it was sent.
LINGER_SECS = 2.0
SWEEP_SECS = 0.5
# Upgrades are of HTTP/1.1, whatever else the worker speaks.
_ALPN = ("http/1.1",)


class SocketLeg(SocketSource, Leg):
    """What a worker sends."""

    __slots__ = ("_socket",)

    def __init__(self, socket: WorkerSocket, loop: asyncio.AbstractEventLoop) -> None:
        Leg.__init__(self, 0.0, loop)
        self._socket: Socket | None = socket
        self.request: SocketSink = SocketSink(socket)

    def on_abort(self, error: Exception) -> None:
        """Cut the connection."""
        if self._socket is not None:
            self._socket.break_off()


class WorkerSocket(Socket, asyncio.Protocol):
    """One connection to one worker."""

    __slots__ = (
        *("worker", "leg", "lingers_since", "_sockets", "_reader"),
        *("_is_open", "_got_bytes"),
    )

    def __init__(
        self, sockets: WorkerSockets, worker: Worker, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__()
        self.worker = worker
        self.leg: SocketLeg | None = SocketLeg(self, loop)
        self.lingers_since = 0.0  # when the last was sent, 0 = not yet
        self._sockets = sockets
        self._reader = ResponseReader(self)
        self._is_open = False  # the worker's 101 has come
        self._got_bytes = False

    # -- asyncio's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The worker accepted."""
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)

    def data_received(self, data: bytes) -> None:
        """Bytes of frames, or of the answer to the handshake."""
        if len(data) >= LARGE_READ_BYTES:
            self.wait_for_turn(self._sockets.turns, len(data))
        leg = self.leg
        if leg is None:
            return
        if self._is_open:
            leg.deliver(data)
            return
        self._got_bytes = True
        try:
            self._reader.feed(data)
        except BadMessage as error:
            text = f"{failure(self.worker)}: {error.reason}"
            self._fail(ReplyMalformed(text, error.reason))
            self.cut()

    def eof_received(self) -> bool:
        """The worker will send no more."""
        leg = self.leg
        if leg is not None:
            if self._is_open:
                leg.deliver(b"", True)
            else:
                self._reader.eof()
        return False  # asyncio closes the transport

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, whoever closed it."""
        if self.leg is not None:
            kind = ReplyBroken if self._got_bytes else SendFailed
            self._fail(kind(failure(self.worker), "connection closed"))
        self.transport = None
        self._reader.close()
        self._sockets.closed(self)

    def pause_writing(self) -> None:
        """The worker reads too slowly: hold its client."""
        if self.leg is not None and self.leg.request.source is not None:
            self.leg.request.source.hold(Hold.SINK_FULL)

    def resume_writing(self) -> None:
        """There is room again."""
        if self.leg is not None and self.leg.request.source is not None:
            self.leg.request.source.release(Hold.SINK_FULL)

    # -- the reader's side -----------------------------------------------------------

    def on_head(self, head: ResponseHead) -> None:
        """The worker answered the handshake."""
        assert self.leg is not None
        self._is_open = head.status == 101
        if not self.leg.head.done():
            self.leg.head.set_result(head)

    def on_body(self, data: bytes, end: bool) -> None:
        """The body of a refusal, or frames that came in one read with the 101."""
        leg = self.leg
        assert leg is not None
        if end:
            self._let_go()
            leg.deliver(data, True)
            self.cut()
        else:
            leg.deliver(data)

    # -- the leg's side --------------------------------------------------------------

    def shake_hands(self, request: WorkerRequest) -> None:
        """Ask for the upgrade."""
        self._reader.expect(may_switch=True)
        assert self.leg is not None
        self.leg.request.write(encode_request(request, self.worker.authority))

    def finish(self) -> None:
        """All is said: half-close, and drop what comes until the worker closes."""
        self.lingers_since = monotonic()
        self._let_go()
        self.half_close()

    def break_off(self) -> None:
        """Drop the connection at once."""
        self.cut()

    def cut(self) -> None:
        """Drop the connection at once."""
        if self.transport is not None:
            self.transport.abort()

    # -- inside ----------------------------------------------------------------------

    def _let_go(self) -> None:
        leg, self.leg = self.leg, None
        if leg is not None:
            leg.detach()
            leg.request.detach()

    def _fail(self, error: GatewayError) -> None:
        leg = self.leg
        self._let_go()
        if leg is None:
            return
        if not leg.head.done():
            leg.head.set_exception(error)
            # Looked at here, so that a leg nobody waits for any more is no leak.
            leg.head.exception()
        leg.fail(error)


class WorkerSockets:
    """Every such connection there is, and the one way to open another."""

    __slots__ = ("turns", "_loop", "_secure", "_open", "_sweeper")

    def __init__(self, loop: asyncio.AbstractEventLoop, secure: Secure) -> None:
        self.turns = ReadTurns(loop.call_soon)
        self._loop = loop
        self._secure = secure
        self._open: set[WorkerSocket] = set()
        self._sweeper = Sweeper(loop.call_later, SWEEP_SECS, self._sweep)

    def __len__(self) -> int:
        return len(self._open)

    async def open(
        self, worker: Worker, request: WorkerRequest, timeout_secs: float
    ) -> tuple[SocketLeg, ResponseHead]:
        """Connect and ask for the upgrade: the answer's head, and what follows it.

        ``timeout_secs`` holds for all of it, the worker's own for connecting. Raises
        UpstreamError.
        """
        deadline = monotonic() + timeout_secs
        socket = await self._dial(worker, timeout_secs)
        leg = socket.leg
        if leg is None:
            raise SendFailed(failure(worker), "connection closed")
        # Not before: when a dial is given up as it succeeds, uvloop closes the socket
        # without telling the connection.
        self._open.add(socket)
        try:
            async with asyncio.timeout(deadline - monotonic()):
                socket.shake_hands(request)
                return leg, await leg.head
        except TimeoutError:
            error = UpstreamTimeout(failure(worker), "handshake timed out")
            leg.abort(error)
            raise error from None
        except UpstreamError:
            # The error's traceback holds this frame, and the leg holds the error.
            leg = None
            raise
        except asyncio.CancelledError:
            leg.abort(UpstreamError("the request was given up"))
            raise

    def closed(self, socket: WorkerSocket) -> None:
        """A connection is gone."""
        self._open.discard(socket)

    def close(self) -> None:
        """Drop every connection."""
        self._sweeper.close()
        for socket in list(self._open):
            socket.cut()

    async def _dial(self, worker: Worker, timeout_secs: float) -> WorkerSocket:
        patience = min(worker.http_pool.connect_timeout_secs, timeout_secs)
        try:
            async with asyncio.timeout(patience):
                return await dial(
                    self._loop,
                    worker.host,
                    worker.port,
                    lambda alpn: WorkerSocket(self, worker, self._loop),
                    self._secure(_ALPN) if worker.is_tls else None,
                )
        except (OSError, TimeoutError) as error:
            why = str(error) or "connecting took too long"
            raise ConnectFailed(failure(worker), why) from None

    def _sweep(self, now: float) -> None:
        """Cut those that do not close although all is said."""
        for socket in list(self._open):
            if socket.lingers_since and now - socket.lingers_since > LINGER_SECS:
                socket.cut()


def failure(worker: Worker) -> str:
    """The contract's message for a request that could not be carried out."""
    return f"error sending request for url ({worker.url}). URL: {worker.url}"
