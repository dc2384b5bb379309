"""The connections to each worker, and the one way to call it."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import Callable

from smgproxy.core.clock import Sweeper, monotonic
from smgproxy.core.errors import ConnectFailed, GatewayError, UpstreamError
from smgproxy.core.flow import BACKLOG_BYTES, Source, collect
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.core.options import flag
from smgproxy.fleet.worker import HttpPoolSettings, Worker
from smgproxy.upstream.dial import dial
from smgproxy.upstream.http1 import WorkerConnection
from smgproxy.upstream.leg import Leg

SWEEP_SECS = 0.25
# Gives the context for https:// workers, anew for each connection: it may be replaced.
Secure = Callable[[], ssl.SSLContext]


@dataclasses.dataclass(frozen=True)
class UpstreamOptions:
    """How workers are called."""

    request_timeout_secs: int = flag(
        1800,
        "--request-timeout-secs",
        "Request Handling",
        "longest time a request to a worker may take, its streamed answer included",
        minimum=1,
    )
    upstream_pool_idle_timeout_secs: int = flag(
        3,
        "--upstream-pool-idle-timeout-secs",
        "Worker Configuration",
        "close a pooled worker connection idle this long; 0 = keep for ever",
        minimum=0,
    )

    def http_pool(self) -> HttpPoolSettings:
        """The settings of a worker whose spec says nothing about its connections."""
        return HttpPoolSettings(
            pool_idle_timeout_secs=self.upstream_pool_idle_timeout_secs,
            timeout_secs=self.request_timeout_secs,
        )


class WorkerPool:
    """One worker's connections: a stack of idle ones and the set of busy ones."""

    __slots__ = ("worker", "loop", "_secure", "_idle", "_busy")

    def __init__(
        self, worker: Worker, loop: asyncio.AbstractEventLoop, secure: Secure
    ) -> None:
        self.worker = worker
        self.loop = loop
        self._secure = secure
        # Insertion order is the stack: the warmest connection is used first, the
        # rest grow idle and expire. Popping one is the reservation.
        self._idle: dict[WorkerConnection, None] = {}
        self._busy: set[WorkerConnection] = set()

    def take(self) -> WorkerConnection | None:
        """The idle connection used last, now reserved; None when there is none."""
        idle = self._idle
        while idle:
            connection, _ = idle.popitem()
            if connection.is_usable:
                self._busy.add(connection)
                return connection
        return None

    async def dial(self, deadline: float) -> WorkerConnection:
        """A new connection, reserved. Raises ConnectFailed."""
        worker = self.worker
        patience = min(
            worker.http_pool.connect_timeout_secs, max(0.0, deadline - monotonic())
        )
        try:
            async with asyncio.timeout(patience):
                connection = await dial(
                    self.loop,
                    worker.host,
                    worker.port,
                    lambda alpn: WorkerConnection(self),
                    self._secure() if worker.is_tls else None,
                )
        except (OSError, TimeoutError) as error:
            why = str(error) or "connecting took too long"
            raise ConnectFailed(self.failure(), why) from None
        self._busy.add(connection)
        return connection

    def failure(self) -> str:
        """The contract's message for a request that could not be carried out."""
        url = self.worker.url
        return f"error sending request for url ({url}). URL: {url}"

    def give_back(self, connection: WorkerConnection) -> None:
        """A response is complete and the connection clean."""
        self._busy.discard(connection)
        worker = self.worker
        room = worker.http_pool.pool_max_idle_per_host
        if len(self._idle) < room and not worker.is_removed:
            self._idle[connection] = None
        else:
            connection.cut()

    def gone(self, connection: WorkerConnection) -> None:
        """A connection is lost or not fit for another request."""
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

    def close(self) -> None:
        """Drop idle connections; busy ones end with their legs."""
        for connection in list(self._idle):
            connection.cut()

    def cut_all(self) -> None:
        """Drop every connection, legs included."""
        for connection in [*self._idle, *self._busy]:
            connection.cut()

    def counts(self) -> tuple[int, int]:
        """Idle and busy connections."""
        return len(self._idle), len(self._busy)


class Fetched:
    """A worker's whole answer to a small request."""

    __slots__ = ("status", "headers", "body")

    def __init__(self, head: ResponseHead, body: bytes) -> None:
        self.status = head.status
        self.headers = head.headers
        self.body = body


class Upstream:
    """Calls workers over their pools."""

    __slots__ = ("_pools", "_loop", "_secure", "_sweeper", "resends")

    def __init__(self, loop: asyncio.AbstractEventLoop, secure: Secure) -> None:
        self._secure = secure
        self._pools: dict[Worker, WorkerPool] = {}
        self._loop = loop
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
        been closed by the worker as we wrote to it. A one-shot request is not, and
        its body is let go as soon as the transport has it. Raises UpstreamError.
        """
        pool = self._pool_of(worker)
        deadline = monotonic() + timeout_secs
        connection = pool.take()
        leg: Leg | None = None
        try:
            try:
                if connection is None:
                    connection = await pool.dial(deadline)
                leg = connection.send(request, worker.authority, deadline)
                if is_one_shot:
                    request.body = b""
                return leg, await leg.head
            except UpstreamError as error:
                if is_one_shot or not error.is_resendable:
                    raise
            self.resends += 1
            connection = await pool.dial(deadline)
            leg = connection.send(request, worker.authority, deadline)
            return leg, await leg.head
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
        deadline = monotonic() + timeout_secs
        connection = pool.take() if body_bytes <= BACKLOG_BYTES else None
        leg: Leg | None = None
        try:
            if connection is None:
                connection = await pool.dial(deadline)
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
            pool = self._pools[worker] = WorkerPool(worker, self._loop, self._secure)
        return pool

    def _sweep(self, now: float) -> None:
        for worker, pool in list(self._pools.items()):
            pool.sweep(now)
            if worker.is_removed and pool.counts() == (0, 0):
                del self._pools[worker]
