"""A pool whose connections are shared: who dials, who waits, what is taken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from smgproxy.core.errors import ConnectFailed
from smgproxy.upstream import pool as pools
from smgproxy.upstream.http1 import WorkerConnection
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.pool import Connection
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport
from tests.upstream.stage import DEADLINE, FakeLoop, Plant, ask


class GatedLoop(FakeLoop):
    """Dials wait until the test lets them through, or refuses them."""

    def __init__(self) -> None:
        super().__init__()
        self.running = asyncio.get_running_loop()
        self.dials: list[asyncio.Future[None]] = []

    def create_future(self) -> asyncio.Future[object]:
        return self.running.create_future()

    async def create_connection(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> tuple[FakeTransport, asyncio.Protocol]:
        gate: asyncio.Future[None] = self.running.create_future()
        self.dials.append(gate)
        await gate
        return await super().create_connection(make, host, port)


class Scene:
    """A worker that speaks HTTP/2, and requests that want a connection to it."""

    def __init__(self) -> None:
        self.loop = GatedLoop()
        self.plant = Plant(self.loop)
        self.plant.worker.http2 = True
        self.pool = self.plant.pool

    def ask(self, since: float = 0.0) -> asyncio.Task[Connection]:
        """A request that found no connection."""
        return self.loop.running.create_task(self.pool.connect(DEADLINE, since))

    async def settle(self) -> None:
        """Let everybody run as far as they come."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def connected(self) -> SharedConnection:
        """A connection, dialled."""
        task = self.ask()
        await self.settle()
        self.loop.dials[-1].set_result(None)
        connection = await task
        assert isinstance(connection, SharedConnection)
        return connection


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


@pytest.fixture
def play(clock: FakeClock) -> Play:
    def run(act: Callable[[Scene], Awaitable[None]]) -> None:
        async def whole() -> None:
            scene = Scene()
            try:
                await asyncio.wait_for(act(scene), 10)
            finally:
                scene.pool.cut_all()
                for transport in scene.loop.transports:
                    transport.turn()
                scene.loop.close()

        asyncio.run(whole())

    return run


def test_many_requests_at_once_share_one_dial(play: Play) -> None:
    async def act(scene: Scene) -> None:
        tasks = [scene.ask() for _ in range(20)]
        await scene.settle()
        assert len(scene.loop.dials) == 1
        scene.loop.dials[0].set_result(None)
        assert len(set(await asyncio.gather(*tasks))) == 1
        assert scene.pool.counts() == (1, 0)

    play(act)


def test_all_who_wait_for_a_dial_are_told_why_it_failed(play: Play) -> None:
    async def act(scene: Scene) -> None:
        tasks = [scene.ask() for _ in range(5)]
        await scene.settle()
        scene.loop.dials[0].set_exception(ConnectionRefusedError("refused"))
        for error in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(error, ConnectFailed) and error.cause == "refused"
        assert len(scene.loop.dials) == 1

    play(act)


def test_whoever_dials_may_leave_and_another_goes_on(play: Play) -> None:
    async def act(scene: Scene) -> None:
        tasks = [scene.ask() for _ in range(3)]
        await scene.settle()
        tasks[0].cancel()
        await scene.settle()
        assert len(scene.loop.dials) == 2
        tasks[2].cancel()  # one that waits takes nothing with it
        await scene.settle()
        scene.loop.dials[1].set_result(None)
        assert isinstance(await tasks[1], SharedConnection)

    play(act)


def test_who_waits_waits_no_longer_than_its_request_may_take(play: Play) -> None:
    async def act(scene: Scene) -> None:
        one = scene.ask()
        await scene.settle()
        with pytest.raises(ConnectFailed, match="error sending"):
            await scene.pool.connect(0.0)
        scene.loop.dials[0].set_result(None)
        await one

    play(act)


def test_a_second_send_uses_a_connection_made_since_the_first(
    play: Play, clock: FakeClock
) -> None:
    async def act(scene: Scene) -> None:
        old = await scene.connected()
        clock.advance(1)
        began = clock.now
        tasks = [scene.ask(began) for _ in range(3)]
        await scene.settle()
        scene.loop.dials[-1].set_result(None)
        found = set(await asyncio.gather(*tasks))
        assert len(found) == 1 and old not in found
        assert scene.pool.take() is old

    play(act)


def test_a_request_that_has_one_try_takes_no_idle_connection(play: Play) -> None:
    async def act(scene: Scene) -> None:
        connection = await scene.connected()
        assert scene.pool.take(is_only_try=True) is None
        connection.send(ask(), b"w", DEADLINE)
        assert scene.pool.take(is_only_try=True) is connection

    play(act)


def test_connections_of_a_worker_are_bounded(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "MAX_SHARED", 1)

    async def act(scene: Scene) -> None:
        connection = await scene.connected()
        for _ in range(100):
            connection.send(ask(), b"w", DEADLINE)
        with pytest.raises(ConnectFailed) as caught:
            await scene.pool.connect(DEADLINE)
        assert caught.value.cause == "the worker takes no more requests"

    play(act)


def test_a_worker_that_no_longer_speaks_it_gets_connections_of_its_own(
    play: Play,
) -> None:
    async def act(scene: Scene) -> None:
        await scene.connected()
        scene.plant.worker.http2 = False
        assert scene.pool.take() is None
        task = scene.ask()
        await scene.settle()
        scene.loop.dials[-1].set_result(None)
        assert isinstance(await task, WorkerConnection)

    play(act)
