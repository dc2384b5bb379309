"""The connections to one worker: idle, busy and shared ones."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import ConnectFailed
from smgproxy.core.turns import Outbox, ReadTurns
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.dial import dial
from smgproxy.upstream.http1 import WorkerConnection
from smgproxy.upstream.http2 import SharedConnection

# HTTP/2 connections of one worker; there is a second when the first has no room.
MAX_SHARED = 64
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

    def not_used(self, connection: Connection) -> None:
        """A new connection whose request went nowhere: another one may have it."""
        if isinstance(connection, SharedConnection):
            return
        if connection.is_usable:
            connection.idle_since = monotonic()
            self.give_back(connection)
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
