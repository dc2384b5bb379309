"""One HTTP/1.1 connection to a worker, and the leg it carries."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import (
    ReplyBroken,
    ReplyMalformed,
    SendFailed,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.upstream.leg import Leg
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http1_response import ResponseReader, encode_request, sole_chunk

if TYPE_CHECKING:
    from smgproxy.upstream.pool import WorkerPool


class Http1Leg(Leg):
    """A leg whose holds are pauses of its worker connection."""

    __slots__ = ("_connection",)
    _connection: WorkerConnection | None

    def carried_by(self, connection: WorkerConnection) -> Http1Leg:
        """Name the connection; part of making a leg."""
        self._connection = connection
        return self

    def on_pause(self) -> None:
        """The client is full: stop reading, so that the worker feels it."""
        if self._connection is not None:
            self._connection.pause()

    def on_resume(self) -> None:
        """Read on."""
        if self._connection is not None:
            self._connection.resume()

    def on_abort(self, error: Exception) -> None:
        """Cut the connection: HTTP/1.1 has no other way to stop a response."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.cut()

    def detach(self) -> None:
        """The response is complete; the connection goes its own way."""
        self._connection = None


class WorkerConnection(asyncio.Protocol):
    """A connection to a worker: idle in its pool, or carrying exactly one leg."""

    __slots__ = (
        "_pool",
        "_transport",
        "_reader",
        "_leg",
        "_got_bytes",
        "_is_paused",
        "idle_since",
    )

    def __init__(self, pool: WorkerPool) -> None:
        self._pool: WorkerPool | None = pool
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader(self)
        self._leg: Http1Leg | None = None
        self._got_bytes = False
        self._is_paused = False
        self.idle_since = 0.0

    @property
    def leg(self) -> Http1Leg | None:
        """The attempt that is running, None while idle."""
        return self._leg

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: open, and nothing came unasked."""
        transport = self._transport
        return transport is not None and not transport.is_closing()

    def send(
        self, request: WorkerRequest, authority: bytes, deadline: float
    ) -> Http1Leg:
        """Send a request; its leg is the only one until the response has ended."""
        assert self._leg is None and self._transport is not None
        assert self._pool is not None
        leg = self._leg = Http1Leg(deadline, self._pool.loop).carried_by(self)
        self._got_bytes = False
        self._reader.expect()
        head = encode_request(request, authority)
        body = request.body
        if len(body) <= 16384:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))
        return leg

    def pause(self) -> None:
        """Stop reading from the worker."""
        if self._transport is not None and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read from the worker again."""
        if self._is_paused:
            self._is_paused = False
            transport = self._transport
            if transport is not None and not transport.is_closing():
                transport.resume_reading()

    def cut(self) -> None:
        """Drop the connection at once."""
        if self._pool is not None:
            self._pool.gone(self)
        if self._transport is not None:
            self._transport.abort()

    def expire(self, now: float) -> None:
        """Fail the running leg if its time is up."""
        leg = self._leg
        if leg is not None and now >= leg.deadline:
            self._fail(UpstreamTimeout(self._message(), "operation timed out"))
            self.cut()

    # -- asyncio's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The worker accepted."""
        # uvloop's transports are no subclass of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Response bytes; one delivery to the leg for one read."""
        if self._reader.is_between_chunks:
            piece = sole_chunk(data)
            if piece:
                self._leg.deliver(piece)  # type: ignore[union-attr]
                return
        self._got_bytes = True
        try:
            self._reader.feed(data)
        except BadMessage as error:
            if self._leg is not None:
                message = f"{self._message()}: {error.reason}"
                self._fail(ReplyMalformed(message, error.reason))
            self.cut()

    def eof_received(self) -> bool:
        """The worker will send no more; asyncio closes the transport."""
        if self._leg is not None:
            self._reader.eof()
        if self._leg is not None and self._transport is not None:
            # Nothing can complete the response now; a close would wait for a worker
            # that may never read the rest of its request.
            self._transport.abort()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone: whatever ran on it has failed."""
        if self._leg is not None:
            if not self._got_bytes:
                self._fail(SendFailed(self._message(), "connection closed"))
            else:
                self._fail(ReplyBroken(self._message(), "connection closed"))
        if self._pool is not None:
            self._pool.gone(self)
            self._pool = None
        self._transport = None
        self._reader.close()

    # -- the reader's side -----------------------------------------------------------

    def on_head(self, head: ResponseHead) -> None:
        """A response begins."""
        assert self._leg is not None
        if not self._leg.head.done():
            self._leg.head.set_result(head)

    def on_body(self, data: bytes, end: bool) -> None:
        """Response body bytes."""
        leg = self._leg
        assert leg is not None
        if end:
            self._leg = None
            leg.detach()
            self._settle()
        leg.deliver(data, end)

    # -- inside ----------------------------------------------------------------------

    def _settle(self) -> None:
        """The response is complete: back to the pool, or away."""
        transport, pool = self._transport, self._pool
        self.resume()
        if (
            self._reader.is_reusable
            and pool is not None
            and transport is not None
            and not transport.is_closing()
            # A worker that answered before it had read the request is out of step.
            and not transport.get_write_buffer_size()
        ):
            self.idle_since = monotonic()
            pool.give_back(self)
        else:
            if pool is not None:
                pool.gone(self)
            if transport is not None:
                # No close: it would wait until the rest of the request was read.
                transport.abort()

    def _fail(self, error: UpstreamError) -> None:
        leg, self._leg = self._leg, None
        if leg is None:
            return
        leg.detach()
        if not leg.head.done():
            leg.head.set_exception(error)
            # Looked at here, so that a leg nobody waits for any more is no leak.
            leg.head.exception()
        leg.fail(error)

    def _message(self) -> str:
        assert self._pool is not None
        return self._pool.failure()
