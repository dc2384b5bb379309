"""One HTTP/1.1 connection to a worker, and the leg it carries."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, cast

from smgproxy.core.clock import monotonic
from smgproxy.core.connection import Connection
from smgproxy.core.errors import (
    GatewayError,
    ReplyBroken,
    ReplyMalformed,
    SendFailed,
    UploadTimeout,
    UpstreamTimeout,
)
from smgproxy.core.flow import Hold
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.core.turns import LARGE_READ_BYTES
from smgproxy.upstream.http1_upload import Http1Upload
from smgproxy.upstream.leg import Leg
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http1_response import ResponseReader, encode_request, sole_chunk

if TYPE_CHECKING:
    from smgproxy.upstream.pool import WorkerPool

# Bytes a worker may leave unread before its client is held, and where it goes on.
HIGH_WATER = 64 * 1024
LOW_WATER = 16 * 1024
# A longer body is handed over as it is rather than copied behind its head.
_COPY_LIMIT = 16 * 1024
# How an answer is fetched that still lies in the kernel when a write has failed.
_REST_READ_BYTES = 64 * 1024
_REST_READS = 64


class Http1Leg(Leg):
    """A leg whose holds are pauses of its worker connection.

    ``connection`` sets itself, and goes its own way when the response is complete.
    """

    __slots__ = ("connection",)
    connection: WorkerConnection | None

    def on_pause(self) -> None:
        """The client is full: stop reading, so that the worker feels it."""
        if self.connection is not None:
            self.connection.pause()

    def on_resume(self) -> None:
        """Read on."""
        if self.connection is not None:
            self.connection.resume()

    def on_abort(self, error: Exception) -> None:
        """Cut the connection: HTTP/1.1 has no other way to stop a response."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.cut()


class WorkerConnection(Connection, asyncio.Protocol):
    """A connection to a worker: idle in its pool, or carrying exactly one leg."""

    __slots__ = (
        "_pool",
        "_reader",
        "_leg",
        "_upload",
        "_got_bytes",
        "_unsent",
        "idle_since",
    )

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__()
        self._pool: WorkerPool | None = pool
        self._reader = ResponseReader(self)
        self._leg: Http1Leg | None = None
        self._upload: Http1Upload | None = None  # the leg's body, until it is sent
        self._got_bytes = False
        self._unsent = b""  # a request that leaves at the end of the loop's turn
        self.idle_since = 0.0

    @property
    def leg(self) -> Http1Leg | None:
        """The attempt that is running, None while idle."""
        return self._leg

    @property
    def is_usable(self) -> bool:
        """Whether a request may be sent: open, and nothing came unasked."""
        transport = self.transport
        return transport is not None and not transport.is_closing()

    def send(
        self, request: WorkerRequest, authority: bytes, deadline: float
    ) -> Http1Leg:
        """Send a request; its leg is the only one until the response has ended."""
        pool, transport = self._pool, self.transport
        assert pool is not None and transport is not None
        leg = self._begin(pool, deadline)
        head = encode_request(request, authority)
        body = request.body
        if len(body) <= _COPY_LIMIT:
            self._unsent = head + body
            pool.outbox.add(self)
        else:
            transport.writelines((head, body))
        return leg

    def send_unsent(self) -> None:
        """Write the request that waited for the end of the turn, if still wanted."""
        unsent, self._unsent = self._unsent, b""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            transport.write(unsent)

    def upload(
        self, request: WorkerRequest, authority: bytes, deadline: float
    ) -> Http1Leg:
        """Begin a request whose body follows through the leg's ``request`` sink.

        In the chunked coding, unless the request has a Content-Length to keep to.
        """
        assert self._pool is not None and self.transport is not None
        leg = self._begin(self._pool, deadline)
        self.transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        is_sized = any(name == b"content-length" for name, _ in request.headers)
        head = encode_request(request, authority, is_chunked=not is_sized)
        leg.request = self._upload = Http1Upload(self, head, not is_sized)
        return leg

    def cut(self) -> None:
        """Drop the connection at once."""
        self._drop_upload()
        if self._pool is not None:
            self._pool.gone(self)
        if self.transport is not None:
            self.transport.abort()

    def expire(self, now: float) -> None:
        """Fail the running leg if its time is up."""
        leg = self._leg
        if leg is not None and now >= leg.deadline:
            upload = self._upload
            is_starved = upload is not None and upload.awaits_client
            kind = UploadTimeout if is_starved else UpstreamTimeout
            self._fail(kind(self._message(), "operation timed out"))
            self.cut()

    # -- asyncio's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The worker accepted."""
        # uvloop's transports are no subclass of asyncio's.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Response bytes; one delivery to the leg for one read."""
        if len(data) >= LARGE_READ_BYTES and self._pool is not None:
            self.wait_for_turn(self._pool.turns, len(data))
        if self._reader.is_between_chunks:
            piece = sole_chunk(data)
            if piece:
                self._leg.deliver(piece)  # type: ignore[union-attr]
                return
        if self._unsent:
            # No answer to a request that has not left.
            self._fail(SendFailed(self._message(), "bytes came unasked"))
            self.cut()
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
        if self._leg is not None and self.transport is not None:
            # Nothing can complete the response now; a close would wait for a worker
            # that may never read the rest of its request.
            self.transport.abort()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone: whatever ran on it has failed."""
        if self._leg is not None and error is not None:
            self._read_rest()
        if self._leg is not None:
            if not self._got_bytes:
                self._fail(SendFailed(self._message(), "connection closed"))
            else:
                self._fail(ReplyBroken(self._message(), "connection closed"))
        self._drop_upload()
        if self._pool is not None:
            self._pool.gone(self)
            self._pool = None
        self.transport = None
        self._reader.close()

    def pause_writing(self) -> None:
        """The worker reads too slowly: hold its client."""
        upload = self._upload
        if upload is not None and upload.source is not None:
            upload.source.hold(Hold.SINK_FULL)

    def resume_writing(self) -> None:
        """There is room again."""
        upload = self._upload
        if upload is not None and upload.source is not None:
            upload.source.release(Hold.SINK_FULL)

    # -- the upload's side -----------------------------------------------------------

    def transmit(self, *pieces: bytes) -> None:
        """Write with one call; nothing when the socket is already going."""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            transport.writelines(pieces)

    def on_upload_end(self) -> None:
        """The request's last byte was written."""
        self._upload = None

    def on_upload_failed(self, error: Exception) -> None:
        """Its client will not send the rest.

        The connection closes without a last chunk, so that the worker cannot take
        what it has for the whole (RFC 9112 section 8).
        """
        if isinstance(error, GatewayError):
            self._fail(error)
        self.cut()

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
            self._leg = leg.connection = None
            self._settle()
        leg.deliver(data, end)

    # -- inside ----------------------------------------------------------------------

    def _begin(self, pool: WorkerPool, deadline: float) -> Http1Leg:
        assert self._leg is None
        leg = self._leg = Http1Leg(deadline, pool.loop)
        leg.connection = self
        self._got_bytes = False
        self._reader.expect()
        return leg

    def _drop_upload(self) -> None:
        """What the client still sends of its body goes nowhere."""
        upload, self._upload = self._upload, None
        if upload is not None:
            upload.drop()

    def _read_rest(self) -> None:
        """Read what the worker said before it closed on what we were sending it.

        The transport died of a failed write, with the answer unread: a worker may
        answer and close with a request's body on its way (RFC 9112 section 9.6).
        """
        transport = self.transport
        assert transport is not None
        sock = transport.get_extra_info("socket")
        if sock is None or transport.get_extra_info("sslcontext") is not None:
            return
        for _ in range(_REST_READS):
            try:
                data = os.read(sock.fileno(), _REST_READ_BYTES)
            except OSError:
                return
            if not data:
                self._reader.eof()
                return
            self.data_received(data)
            if self._leg is None:
                return

    def _settle(self) -> None:
        """The response is complete: back to the pool, or away."""
        transport, pool = self.transport, self._pool
        if self._pauses:
            self.resume()
        if (
            self._reader.is_reusable
            and self._upload is None
            and pool is not None
            and transport is not None
            and not transport.is_closing()
            # A worker that answered before it had read the request is out of step.
            and not transport.get_write_buffer_size()
        ):
            self.idle_since = monotonic()
            pool.give_back(self)
        else:
            self._drop_upload()
            if pool is not None:
                pool.gone(self)
            if transport is not None:
                # No close: it would wait until the rest of the request was read.
                transport.abort()

    def _fail(self, error: GatewayError) -> None:
        leg, self._leg = self._leg, None
        if leg is None:
            return
        leg.connection = None
        if not leg.head.done():
            leg.head.set_exception(error)
            # Looked at here, so that a leg nobody waits for any more is no leak.
            leg.head.exception()
        leg.fail(error)

    def _message(self) -> str:
        assert self._pool is not None
        return self._pool.failure()
