"""A worker's pool: reuse, expiry, dialling, and the one second send."""

from __future__ import annotations

import asyncio
import gc
import ssl
from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from smgproxy.core.errors import ConnectFailed, SendFailed, UpstreamError
from smgproxy.upstream.http1 import Http1Leg, WorkerConnection
from smgproxy.upstream.pool import Fetched, Upstream
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport
from tests.upstream.stage import DEADLINE, OK, STREAM, FakeLoop, Plant, ask

Connected = tuple[WorkerConnection, FakeTransport]


def park(plant: Plant, *connections: Connected) -> None:
    """Let each connection carry one request and go idle."""
    for connection, transport in connections:
        connection.send(ask(), b"w", DEADLINE)
        plant.loop.turn()
        transport.peer_sends(OK)


def test_the_connection_used_last_is_used_first(loop: FakeLoop) -> None:
    plant = Plant(loop)
    one, other = plant.dial(), plant.dial()
    park(plant, one, other)
    assert plant.pool.take() is other[0]
    assert plant.pool.take() is one[0]
    assert plant.pool.take() is None


def test_a_connection_that_is_going_is_not_taken(loop: FakeLoop) -> None:
    plant = Plant(loop)
    one, other = plant.dial(), plant.dial()
    park(plant, one, other)
    other[1].close()  # connection_lost is still to come
    assert plant.pool.take() is one[0]


def test_idle_connections_expire_and_younger_ones_stay(
    loop: FakeLoop, clock: FakeClock
) -> None:
    plant = Plant(loop, pool_idle_timeout_secs=3)
    old, young = plant.dial(), plant.dial()
    park(plant, old)
    clock.advance(2)
    park(plant, young)
    clock.advance(1)
    plant.pool.sweep(clock.now)
    assert (old[1].is_closing(), young[1].is_closing()) == (True, False)
    clock.advance(2)
    plant.pool.sweep(clock.now)
    assert plant.pool.counts() == (0, 0)


def test_use_makes_a_connection_young_again(loop: FakeLoop, clock: FakeClock) -> None:
    plant = Plant(loop, pool_idle_timeout_secs=3)
    one = plant.dial()
    for _ in range(3):
        park(plant, one)
        clock.advance(2)
        plant.pool.sweep(clock.now)
        assert plant.pool.take() is one[0]


def test_an_idle_timeout_of_0_keeps_for_ever(loop: FakeLoop, clock: FakeClock) -> None:
    plant = Plant(loop, pool_idle_timeout_secs=0)
    park(plant, plant.dial())
    clock.advance(1e6)
    plant.pool.sweep(clock.now)
    assert plant.pool.counts() == (1, 0)


def test_no_more_are_kept_than_the_worker_may_have_idle(loop: FakeLoop) -> None:
    plant = Plant(loop, pool_max_idle_per_host=1)
    one, other = plant.dial(), plant.dial()
    park(plant, one, other)
    assert plant.pool.counts() == (1, 0)
    assert other[1].is_closing()


def test_a_removed_worker_keeps_nothing_idle(loop: FakeLoop) -> None:
    plant = Plant(loop)
    idle, busy = plant.dial(), plant.dial()
    park(plant, idle)
    leg = busy[0].send(ask(), b"w", DEADLINE)
    plant.worker.is_removed = True
    plant.pool.close()
    assert plant.pool.counts() == (0, 1)
    busy[1].peer_sends(OK)
    assert leg.take_all() == b"ok"
    assert plant.pool.counts() == (0, 0)


def test_cutting_all_fails_the_legs_that_run(loop: FakeLoop) -> None:
    plant = Plant(loop)
    connection, transport = plant.dial()
    leg = connection.send(ask(), b"w", DEADLINE)
    plant.pool.cut_all()
    transport.turn()
    assert isinstance(leg.head.exception(), SendFailed)
    assert plant.pool.counts() == (0, 0)


# -- dialling ------------------------------------------------------------------------


def test_a_dial_goes_to_the_workers_host_and_port(loop: FakeLoop) -> None:
    plant = Plant(loop)
    plant.dial()
    assert loop.dialled == [("w", 80)]
    assert plant.pool.counts() == (0, 1)


def test_a_refused_dial_is_named_and_leaves_nothing(loop: FakeLoop) -> None:
    plant = Plant(loop)
    loop.refusals = [ConnectionRefusedError("refused")]
    with pytest.raises(ConnectFailed, match=r"for url \(http://w:80\)") as caught:
        plant.dial()
    assert caught.value.cause == "refused"
    assert plant.pool.counts() == (0, 0)


@pytest.mark.parametrize(
    ("patience", "left"), [(0.01, 60.0), (60.0, 0.01), (60.0, -5.0)]
)
def test_a_dial_ends_by_its_own_time_or_the_requests(
    loop: FakeLoop, clock: FakeClock, patience: float, left: float
) -> None:
    plant = Plant(loop, connect_timeout_secs=patience)

    async def never(*_: object) -> Connected:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    loop.create_connection = never  # type: ignore[method-assign, assignment]
    with pytest.raises(ConnectFailed) as caught:
        asyncio.run(plant.pool.dial(clock.now + left))
    assert caught.value.cause == "connecting took too long"
    assert plant.pool.counts() == (0, 0)


# -- calls ---------------------------------------------------------------------------


class Scene:
    """An Upstream on a running loop, whose dials give fake transports."""

    def __init__(self, clock: FakeClock) -> None:
        self.running = asyncio.get_running_loop()
        self.loop = FakeLoop()
        self.plant = Plant(self.loop)
        self.clock = clock
        self.upstream = Upstream(
            cast(asyncio.AbstractEventLoop, self),
            lambda alpn: ssl.create_default_context(),
        )

    def create_future(self) -> asyncio.Future[object]:
        """A future that can be waited for."""
        return self.running.create_future()

    async def create_connection(
        self, make: Callable[[], asyncio.Protocol], host: str, port: int
    ) -> object:
        """A fake transport."""
        return await self.loop.create_connection(make, host, port)

    def call_later(self, delay: float, callback: Callable[[], object]) -> object:
        """The fake clock's."""
        return self.clock.call_later(delay, callback)

    def call_soon(self, callback: Callable[[], object]) -> object:
        """The running loop's."""
        return self.running.call_soon(callback)

    def fetch(self, limit_bytes: int = 100) -> asyncio.Task[Fetched]:
        """A request on its way."""
        return self.running.create_task(
            self.upstream.fetch(
                *(self.plant.worker, "POST", "/x"),
                timeout_secs=60,
                limit_bytes=limit_bytes,
            )
        )

    async def transport(self, number: int) -> FakeTransport:
        """The connection dialled as ``number``, once a request is on it."""
        async with asyncio.timeout(5):
            while len(self.loop.transports) <= number or not (
                self.loop.transports[number].syscalls
            ):
                await asyncio.sleep(0)
        return self.loop.transports[number]

    def counts(self) -> tuple[int, int]:
        """Idle and busy connections."""
        return self.upstream.counts()["http://w:80"]


@pytest.fixture
def play(clock: FakeClock) -> Callable[[Callable[[Scene], Awaitable[None]]], None]:
    """Run a scene and see that nothing of it is left."""

    def run(act: Callable[[Scene], Awaitable[None]]) -> None:
        async def whole() -> None:
            scene = Scene(clock)
            try:
                await asyncio.wait_for(act(scene), 10)
                assert scene.counts()[1] == 0
            finally:
                scene.upstream.close()
                scene.loop.close()
            assert clock.pending == 0

        asyncio.run(whole())

    return run


Play = Callable[[Callable[[Scene], Awaitable[None]]], None]


def test_a_second_request_uses_the_first_ones_connection(play: Play) -> None:
    async def act(scene: Scene) -> None:
        for number in (1, 2):
            task = scene.fetch()
            transport = await scene.transport(0)
            while len(transport.syscalls) < number:
                await asyncio.sleep(0)
            transport.peer_sends(OK)
            assert (await task).body == b"ok"
        assert len(scene.loop.dialled) == 1
        assert scene.upstream.resends == 0

    play(act)


def test_a_send_that_dies_unanswered_is_repeated_once_on_a_new_connection(
    play: Play,
) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        first = await scene.transport(0)
        first.peer_resets()
        second = await scene.transport(1)
        assert second.syscalls == first.syscalls
        second.peer_sends(OK)
        assert (await task).body == b"ok"
        assert scene.upstream.resends == 1

    play(act)


def test_the_second_send_is_the_last(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        for number in (0, 1):
            (await scene.transport(number)).peer_resets()
        with pytest.raises(SendFailed):
            await task
        assert len(scene.loop.dialled) == 2
        assert scene.upstream.resends == 1

    play(act)


def test_a_refused_dial_is_tried_once_more(play: Play) -> None:
    async def act(scene: Scene) -> None:
        scene.loop.refusals = [ConnectionRefusedError("no")]
        task = scene.fetch()
        (await scene.transport(0)).peer_sends(OK)
        assert (await task).body == b"ok"
        assert len(scene.loop.dialled) == 2

    play(act)


@pytest.mark.parametrize("said", [b"H", OK[:20], b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_one_byte_of_an_answer_forbids_a_second_send(play: Play, said: bytes) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        transport = await scene.transport(0)
        transport.peer_sends(said)
        transport.peer_resets()
        with pytest.raises(UpstreamError):
            await task
        assert len(scene.loop.dialled) == 1

    play(act)


def test_a_timeout_is_not_repeated_and_is_found_by_the_sweep(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        transport = await scene.transport(0)
        scene.clock.advance(61)
        with pytest.raises(UpstreamError) as caught:
            await task
        assert caught.value.status == 504
        assert transport.is_closing()
        assert len(scene.loop.dialled) == 1

    play(act)


def test_a_caller_that_gives_up_cuts_its_connection(play: Play) -> None:
    async def act(scene: Scene) -> None:
        for said in (b"", STREAM):
            task = scene.fetch()
            number = len(scene.loop.dialled)
            transport = await scene.transport(number)
            if said:
                transport.peer_sends(said)
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert transport.is_closing()
            assert scene.counts() == (0, 0)

    play(act)


def test_an_answer_over_the_limit_is_an_error_and_cuts(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch(limit_bytes=1)
        transport = await scene.transport(0)
        transport.peer_sends(STREAM, b"2\r\nok\r\n")
        with pytest.raises(UpstreamError, match="too large"):
            await task
        assert transport.is_closing()

    play(act)


@pytest.mark.parametrize("said", [b"", b"H", STREAM, b"rubbish\r\n\r\n"])
def test_a_failed_call_leaves_no_cycle(play: Play, said: bytes) -> None:
    async def act(scene: Scene) -> None:
        gc.collect()
        gc.disable()
        try:
            task = scene.fetch()
            transport = await scene.transport(0)
            if said:
                transport.peer_sends(said)
                await asyncio.sleep(0)
            scene.clock.advance(61)
            try:
                await task
            except UpstreamError:
                pass
            transport.turn()
            del task, transport
            scene.loop.transports.clear()
            await asyncio.sleep(0)
            ours = (WorkerConnection, Http1Leg)
            assert [one for one in gc.get_objects() if isinstance(one, ours)] == []
        finally:
            gc.enable()

    play(act)


def test_a_worker_that_left_is_forgotten_once_its_legs_are_over(play: Play) -> None:
    async def act(scene: Scene) -> None:
        task = scene.fetch()
        transport = await scene.transport(0)
        scene.plant.worker.is_removed = True
        scene.upstream.forget(scene.plant.worker)
        scene.clock.advance(1)
        assert scene.counts() == (0, 1)
        transport.peer_sends(OK)
        assert (await task).body == b"ok"
        assert scene.counts() == (0, 0)

    play(act)
