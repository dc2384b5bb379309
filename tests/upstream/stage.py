"""A pool of worker connections without sockets: the tests play the workers."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from smgproxy.core.flow import Sink
from smgproxy.core.message import WorkerRequest
from smgproxy.fleet.worker import HttpPoolSettings, Worker
from smgproxy.upstream.http1 import Http1Leg, WorkerConnection
from smgproxy.upstream.pool import WorkerPool
from tests.fakes.transport import FakeTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
DEADLINE = 1e12


def ask(body: bytes = b"{}") -> WorkerRequest:
    """An ordinary request."""
    length = b"%d" % len(body)
    return WorkerRequest(b"POST", b"/v1/x", [(b"content-length", length)], body)


class FakeLoop:
    """What a pool needs of a loop; each dial is answered by the test's ``dial``."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self.dialled: list[tuple[str, int]] = []
        self.transports: list[FakeTransport] = []
        self.refusals: list[OSError] = []
        self._soon: list[Callable[[], object]] = []

    def create_future(self) -> asyncio.Future[object]:
        """A future of a loop that need not run."""
        return self._loop.create_future()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in the next turn."""
        self._soon.append(callback)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is to be called."""
        return not self._soon

    def turn(self) -> None:
        """What was to be called in the next turn."""
        soon, self._soon = self._soon, []
        for callback in soon:
            callback()

    async def create_connection(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[FakeTransport, asyncio.Protocol]:
        """Connect at once, or refuse."""
        self.dialled.append((host, port))
        if self.refusals:
            raise self.refusals.pop()
        protocol = make()
        self.transports.append(FakeTransport(protocol))
        return self.transports[-1], protocol

    def close(self) -> None:
        """Let go of the loop behind the futures."""
        self._loop.close()


class Plant:
    """One worker's pool."""

    def __init__(self, loop: FakeLoop, **settings: float) -> None:
        pool = HttpPoolSettings(**settings)  # type: ignore[arg-type]
        self.loop = loop
        self.worker = Worker("id", "http://w:80", http_pool=pool)
        self.pool = WorkerPool(
            self.worker,
            cast(asyncio.AbstractEventLoop, loop),
            lambda alpn: ssl.create_default_context(),
        )

    def dial(self) -> tuple[WorkerConnection, FakeTransport]:
        """A new connection, reserved."""
        connection = asyncio.run(self.pool.dial(DEADLINE))
        assert isinstance(connection, WorkerConnection)
        return connection, self.loop.transports[-1]


class Line:
    """One connection, reserved, and its worker's end."""

    def __init__(self, loop: FakeLoop) -> None:
        self.plant = Plant(loop)
        self.pool = self.plant.pool
        self.connection, self.transport = self.plant.dial()

    def send(self, body: bytes = b"{}", deadline: float = DEADLINE) -> Http1Leg:
        """Send a request on it; the turn of the loop in which it leaves is over."""
        leg = self.connection.send(ask(body), b"w", deadline)
        self.plant.loop.turn()
        return leg

    def says(self, *pieces: bytes) -> None:
        """What the worker sends."""
        self.transport.peer_sends(*pieces)

    @property
    def state(self) -> str:
        """Where the connection is."""
        return {(1, 0): "idle", (0, 1): "busy", (0, 0): "gone"}[self.pool.counts()]


class Kept(Sink):
    """A sink that remembers what it was given, and at the end lets go as all must."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.is_ended = False
        self.error: Exception | None = None

    def write(self, data: bytes, end: bool = False) -> None:
        self.pieces.append(data)
        self.is_ended = end
        if end:
            self.source = None

    def abort(self, error: Exception) -> None:
        self.error = error
        self.source = None
