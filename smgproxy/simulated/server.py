"""A simulated worker that listens: a loopback socket and the sweep of the stale."""

import asyncio

from smgproxy.simulated.connection import Connection
from smgproxy.simulated.options import SimulatedOptions
from smgproxy.simulated.worker import Worker

HOST = "127.0.0.1"
_BACKLOG = 1024
_SWEEP_SECS = 1.0


class SimulatedServer:
    """One worker on one port, from `start` to `close`."""

    __slots__ = ("worker", "_loop", "_listener", "_sweep")

    def __init__(self, options: SimulatedOptions) -> None:
        self._loop = asyncio.get_running_loop()
        self.worker = Worker(options, self._loop)
        self._listener: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None

    async def start(self, port: int = 0) -> str:
        """Listen on a port, or on any free one, and return the URL."""
        self._listener = await self._loop.create_server(
            lambda: Connection(self.worker), HOST, port, backlog=_BACKLOG
        )
        self._sweep = self._loop.call_later(_SWEEP_SECS, self._close_stale)
        chosen = self._listener.sockets[0].getsockname()[1]
        return f"http://{HOST}:{chosen}"

    async def close(self) -> None:
        """Stop listening and cut every connection; answers end where they are."""
        if self._listener is None or self._sweep is None:
            return
        listener, self._listener = self._listener, None
        self._sweep.cancel()
        listener.close()
        for client in tuple(self.worker.connections):
            client.cut()
        await listener.wait_closed()

    def _close_stale(self) -> None:
        now = self._loop.time()
        for client in tuple(self.worker.connections):
            client.close_if_stale(now)
        self._sweep = self._loop.call_later(_SWEEP_SECS, self._close_stale)
