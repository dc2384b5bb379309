"""A worker's pool: reuse, expiry and dialling."""

from __future__ import annotations

import asyncio

import pytest

from smgproxy.core.errors import ConnectFailed, SendFailed
from smgproxy.upstream.http1 import WorkerConnection
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport
from tests.upstream.stage import DEADLINE, OK, FakeLoop, Plant, ask

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
    loop.turn()
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
