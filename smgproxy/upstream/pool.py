"""The connections to each worker, and the one way to call it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

from smgproxy.core.clock import Sweeper, monotonic
from smgproxy.core.errors import ConnectFailed, GatewayError, SendUnseen, UpstreamError
from smgproxy.core.flow import BACKLOG_BYTES, Source, collect
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.core.turns import Outbox, ReadTurns
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.dial import dial
from smgproxy.upstream.http1 import WorkerConnection
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.leg import Leg

SWEEP_SECS = 0.25
# HTTP/2 connections of one worker; there is a second when the first has no room.
MAX_SHARED = 64
# Sends of a request that no worker has looked at.
MAX_UNSEEN = 6
# Gives the context for https:// workers that are offered these protocols, anew for each
# connection: it may be replaced.
Secure = Callable[[Sequence[str]], ssl.SSLContext]
Connection = WorkerConnection | SharedConnection


class WorkerPool:
    """One worker's connections: a stack of idle ones and the set of busy ones.

    Those that speak HTTP/2 are shared: a new one is dialled by one request, and all
    that find no room meanwhile wait for it.
    """

    __slots__ = (
        *("worker", "loop", "turns", "outbox"),
        *("_secure", "_idle", "_busy", "_shared", "_dialling", "_is_plain"),
    )

    def __init__(
        self,
        worker: Worker,
        loop: asyncio.AbstractEventLoop,
        secure: Secure,
        turns: ReadTurns | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.worker = worker
        self.loop = loop
        self.turns = turns or ReadTurns(loop.call_soon)
        self.outbox = outbox or Outbox(loop.call_soon)
        self._secure = secure
        # Insertion order is the stack: the warmest connection is used first, the
        # rest grow idle and expire. Popping one is the reservation.
        self._idle: dict[WorkerConnection, None] = {}
        self._busy: set[WorkerConnection] = set()
        self._shared: dict[SharedConnection, None] = {}
        # Fulfilled when a shared connection was dialled; with the reason if in vain.
        self._dialling: asyncio.Future[str] | None = None
        self._is_plain = False  # ALPN chose HTTP/1.1

    def take(self, is_only_try: bool = False) -> Connection | None:
        """A shared connection with room, or the idle one used last, now reserved.

        For the only try of a request, none that may turn out to be dead: closed by
        the worker while idle.
        """
        if self._shared and self._may_share:
            for shared in self._shared:
                if shared.has_room and (shared.is_busy or not is_only_try):
                    return shared
        if is_only_try or self.worker.http2:
            return None
        idle = self._idle
        while idle:
            connection, _ = idle.popitem()
            if connection.is_usable:
                self._busy.add(connection)
                return connection
        return None

    async def connect(self, deadline: float, since: float = 0.0) -> Connection:
        """A new connection, or a shared one with room made at ``since`` or later.

        Raises ConnectFailed.
        """
        while self._may_share:
            for shared in self._shared:
                if shared.has_room and shared.made_at >= since:
                    return shared
            if self._dialling is None:
                return await self._dial_for_all(deadline)
            patience = max(0.0, deadline - monotonic())
            try:
                async with asyncio.timeout(patience):
                    why = await asyncio.shield(self._dialling)
            except TimeoutError:
                why = "connecting took too long"
            if why:
                raise ConnectFailed(self.failure(), why)
        return await self.dial(deadline)

    async def dial(self, deadline: float) -> Connection:
        """A new connection; reserved, if it is not shared. Raises ConnectFailed."""
        worker = self.worker
        patience = min(
            worker.http_pool.connect_timeout_secs, max(0.0, deadline - monotonic())
        )
        try:
            async with asyncio.timeout(patience):
                connection: Connection = await dial(
                    self.loop,
                    worker.host,
                    worker.port,
                    self._protocol,
                    self._secure(_offers(worker)) if worker.is_tls else None,
                )
        except (OSError, TimeoutError) as error:
            why = str(error) or "connecting took too long"
            raise ConnectFailed(self.failure(), why) from None
        if isinstance(connection, SharedConnection):
            self._shared[connection] = None
            self._is_plain = False
            return connection
        if worker.http2:
            connection.cut()
            raise ConnectFailed(self.failure(), "the worker does not speak HTTP/2")
        self._is_plain = True
        self._busy.add(connection)
        return connection

    def failure(self) -> str:
        """The contract's message for a request that could not be carried out."""
        url = self.worker.url
        return f"error sending request for url ({url}). URL: {url}"

    @property
    def scheme(self) -> bytes:
        """How its requests are named in HTTP/2."""
        return b"https" if self.worker.is_tls else b"http"

    @property
    def keeps_idle(self) -> bool:
        """Whether a connection stays that nothing runs on."""
        worker = self.worker
        return bool(worker.http_pool.pool_max_idle_per_host) and not worker.is_removed

    def give_back(self, connection: WorkerConnection) -> None:
        """A response is complete and the connection clean."""
        self._busy.discard(connection)
        worker = self.worker
        room = worker.http_pool.pool_max_idle_per_host
        if len(self._idle) < room and not worker.is_removed:
            self._idle[connection] = None
        else:
            connection.cut()

    def gone(self, connection: Connection) -> None:
        """A connection is lost or not fit for another request."""
        if isinstance(connection, SharedConnection):
            self._shared.pop(connection, None)
        else:
            self._busy.discard(connection)
            self._idle.pop(connection, None)

    def sweep(self, now: float) -> None:
        """Close what is idle for too long and fail what has run for too long."""
        idle_timeout = self.worker.http_pool.pool_idle_timeout_secs
        if idle_timeout:
            for connection in list(self._idle):
                if now - connection.idle_since < idle_timeout:
                    break  # the younger ones come after it
                connection.cut()
        for connection in list(self._busy):
            connection.expire(now)
        for shared in list(self._shared):
            shared.sweep(now)

    def close(self) -> None:
        """Drop idle connections; busy ones end with their legs."""
        for connection in list(self._idle):
            connection.cut()
        for shared in list(self._shared):
            shared.retire()

    def cut_all(self) -> None:
        """Drop every connection, legs included."""
        running: list[Connection] = [*self._idle, *self._busy, *self._shared]
        for connection in running:
            connection.cut()

    def counts(self) -> tuple[int, int]:
        """Idle and busy connections."""
        busy = sum(shared.is_busy for shared in self._shared)
        idle = len(self._shared) - busy
        return len(self._idle) + idle, len(self._busy) + busy

    @property
    def _may_share(self) -> bool:
        """Whether a new connection speaks HTTP/2, as far as is known."""
        worker = self.worker
        if worker.is_tls and not self._is_plain:
            return "h2" in _offers(worker)
        return worker.http2

    def _protocol(self, alpn: str | None) -> Connection:
        worker = self.worker
        is_shared = alpn == "h2" if worker.is_tls else worker.http2
        return SharedConnection(self) if is_shared else WorkerConnection(self)

    async def _dial_for_all(self, deadline: float) -> Connection:
        if len(self._shared) >= MAX_SHARED:
            raise ConnectFailed(self.failure(), "the worker takes no more requests")
        done = self._dialling = self.loop.create_future()
        why = ""
        try:
            return await self.dial(deadline)
        except ConnectFailed as error:
            why = error.cause
            raise
        finally:
            # Cancelled: whoever waited looks again, and one of them dials.
            self._dialling = None
            done.set_result(why)


def _offers(worker: Worker) -> tuple[str, ...]:
    """What an https:// worker may choose from in its TLS handshake (ALPN)."""
    if worker.http2:
        return ("h2",)
    pool = worker.http_pool
    if pool.prefers_http2 and pool.http2 is None:
        return ("h2", "http/1.1")
    return ("http/1.1",)


class Fetched:
    """A worker's whole answer to a small request."""

    __slots__ = ("status", "headers", "body")

    def __init__(self, head: ResponseHead, body: bytes) -> None:
        self.status = head.status
        self.headers = head.headers
        self.body = body


class Upstream:
    """Calls workers over their pools."""

    __slots__ = ("_pools", "_loop", "_turns", "_out", "_secure", "_sweeper", "resends")

    def __init__(self, loop: asyncio.AbstractEventLoop, secure: Secure) -> None:
        self._secure = secure
        self._pools: dict[Worker, WorkerPool] = {}
        self._loop = loop
        self._turns = ReadTurns(loop.call_soon)
        self._out = Outbox(loop.call_soon)
        self._sweeper = Sweeper(loop.call_later, SWEEP_SECS, self._sweep)
        self.resends = 0  # second sends of a request whose connection died unanswered

    async def call(
        self,
        worker: Worker,
        request: WorkerRequest,
        timeout_secs: float,
        *,
        is_one_shot: bool = False,
    ) -> tuple[Leg, ResponseHead]:
        """Send a request and wait for the head of its answer.

        A send that dies before any response byte, not by timeout, is repeated once,
        at once, on a new connection to the same worker: an idle connection may have
        been closed by the worker as we wrote to it. One that the worker has not looked
        at, as it says, is repeated a few times. A one-shot request is not, so it gets
        a connection that cannot have died, as an upload does, and its body is let go
        as soon as the transport has it. Raises UpstreamError.
        """
        pool = self._pool_of(worker)
        began = monotonic()
        deadline = began + timeout_secs
        connection = pool.take(is_only_try=is_one_shot)
        leg: Leg | None = None
        sends, since = 1, began if is_one_shot else 0.0
        try:
            while True:
                try:
                    if connection is None:
                        connection = await pool.connect(deadline, since)
                    leg = connection.send(request, worker.authority, deadline)
                    if is_one_shot:
                        request.body = b""
                    return leg, await leg.head
                except UpstreamError as error:
                    most = MAX_UNSEEN if isinstance(error, SendUnseen) else 2
                    if is_one_shot or not error.is_resendable or sends >= most:
                        raise
                self.resends += 1
                sends += 1
                connection, since = None, began
        except UpstreamError:
            # The error's traceback holds this frame, and the leg holds the error.
            leg = connection = None
            raise
        except asyncio.CancelledError:
            if leg is not None:
                leg.abort(UpstreamError("the request was given up"))
            raise

    async def upload(
        self,
        worker: Worker,
        request: WorkerRequest,
        body: Source,
        body_bytes: int,
        timeout_secs: float,
    ) -> tuple[Leg, ResponseHead]:
        """Send a request whose body goes on as its client sends it.

        Waits for the head of the answer, which may come before the body's end. There
        is one attempt: what a client has sent it will not send again. So a body that
        is more than a read gets a new connection, as an idle one may turn out dead.
        Raises UpstreamError, and whatever ``body`` fails with.
        """
        pool = self._pool_of(worker)
        began = monotonic()
        deadline = began + timeout_secs
        is_long = body_bytes > BACKLOG_BYTES
        connection = pool.take(is_only_try=is_long)
        leg: Leg | None = None
        try:
            if connection is None:
                connection = await pool.connect(deadline, began if is_long else 0.0)
            leg = connection.upload(request, worker.authority, deadline)
            assert leg.request is not None
            body.join(leg.request)
            leg.request.flush()
            return leg, await leg.head
        except GatewayError:
            # The error's traceback holds this frame, and the leg holds the error.
            leg = connection = None
            raise
        except asyncio.CancelledError:
            if leg is not None:
                leg.abort(UpstreamError("the request was given up"))
            raise

    async def fetch(
        self,
        worker: Worker,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: list[tuple[bytes, bytes]] | None = None,
        timeout_secs: float,
        limit_bytes: int = 16 * 1024 * 1024,
    ) -> Fetched:
        """One small request and its whole answer. Raises UpstreamError."""
        request = WorkerRequest(method.encode(), path.encode(), headers or [], body)
        leg, head = await self.call(worker, request, timeout_secs)
        try:
            too_large = UpstreamError(f"Response from {worker.url} is too large")
            return Fetched(head, await collect(leg, limit_bytes, lambda: too_large))
        finally:
            leg.abort(UpstreamError("not wanted any more"))

    def forget(self, worker: Worker) -> None:
        """A worker left: its idle connections close, running legs go on."""
        pool = self._pools.get(worker)
        if pool is not None:
            pool.close()

    def counts(self) -> dict[str, tuple[int, int]]:
        """Idle and busy connections by worker URL."""
        return {worker.url: pool.counts() for worker, pool in self._pools.items()}

    def close(self) -> None:
        """Drop every connection."""
        self._sweeper.close()
        for pool in self._pools.values():
            pool.cut_all()

    def _pool_of(self, worker: Worker) -> WorkerPool:
        pool = self._pools.get(worker)
        if pool is None:
            pool = self._pools[worker] = WorkerPool(
                worker, self._loop, self._secure, self._turns, self._out
            )
        return pool

    def _sweep(self, now: float) -> None:
        for worker, pool in list(self._pools.items()):
            pool.sweep(now)
            if worker.is_removed and pool.counts() == (0, 0):
                del self._pools[worker]
