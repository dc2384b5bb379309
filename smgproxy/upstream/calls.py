"""The one way to call a worker."""

from __future__ import annotations

import asyncio

from smgproxy.core.clock import Sweeper, monotonic
from smgproxy.core.errors import GatewayError, SendUnseen, UpstreamError
from smgproxy.core.flow import BACKLOG_BYTES, Source, collect
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.core.turns import Outbox, ReadTurns
from smgproxy.fleet.shedding import Shedding
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.leg import Leg
from smgproxy.upstream.pool import Connection, Secure, WorkerPool

SWEEP_SECS = 0.25
# Sends of a request that no worker has looked at.
MAX_UNSEEN = 6


class Fetched:
    """A worker's whole answer to a small request."""

    __slots__ = ("status", "headers", "body")

    def __init__(self, head: ResponseHead, body: bytes) -> None:
        self.status = head.status
        self.headers = head.headers
        self.body = body


class Upstream:
    """Calls workers over their pools."""

    __slots__ = (
        *("_pools", "_loop", "_turns", "_out", "_secure", "_shedding", "_sweeper"),
        "resends",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, secure: Secure, shedding: Shedding
    ) -> None:
        self._secure = secure
        self._shedding = shedding
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
        as soon as the transport has it. Raises UpstreamError, and OverloadShed.
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
                        connection = await self._connect(pool, request, deadline, since)
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
        Raises UpstreamError, OverloadShed, and whatever ``body`` fails with.
        """
        pool = self._pool_of(worker)
        began = monotonic()
        deadline = began + timeout_secs
        is_long = body_bytes > BACKLOG_BYTES
        connection = pool.take(is_only_try=is_long)
        leg: Leg | None = None
        try:
            if connection is None:
                since = began if is_long else 0.0
                connection = await self._connect(pool, request, deadline, since)
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

    async def _connect(
        self, pool: WorkerPool, request: WorkerRequest, deadline: float, since: float
    ) -> Connection:
        """``WorkerPool.connect``, which may take seconds: the worker is looked at anew.

        Raises ConnectFailed and OverloadShed.
        """
        connection = await pool.connect(deadline, since)
        worker, model = pool.worker, request.model
        if model and worker.is_overloaded and self._shedding.covers(worker):
            pool.not_used(connection)
            raise self._shedding.at_dispatch(worker, model)
        return connection

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
