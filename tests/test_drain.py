"""When a gateway that is told to stop goes on accepting, and when it ends."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from smgproxy.dispatch.serve import Dispatcher
from smgproxy.downstream.listener import Listener
from smgproxy.drain import Drain, DrainTimes


class House:
    """A dispatcher and a listener, as far as a drain needs them."""

    def __init__(self) -> None:
        self.running: set[Any] = set()
        self.on_idle: Any = None
        self.open_connections = 0
        self.said: list[str] = []

    def stop_accepting(self) -> None:
        self.said.append("stop accepting")

    def drain(self) -> None:
        self.said.append("drain")

    def cancel_all(self, verdict: object) -> None:
        self.said.append("cancel all")
        self.running.clear()

    def end_last(self) -> None:
        """The last exchange is over."""
        self.running.clear()
        self.on_idle()


def drain_of(house: House, times: DrainTimes) -> Drain:
    return Drain(cast(Dispatcher, house), cast(Listener, house), times)


async def one_turn() -> None:
    """Let what is ready run."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


@pytest.mark.parametrize(
    ("grace", "settle", "window"),
    [
        *((180, None, 5), (6, None, 3), (3, None, 1), (1, None, 0), (0, None, 0)),
        *((180, 0, 0), (180, 1, 1), (180, 20, 20), (180, 100, 90), (4, 20, 2)),
    ],
)
def test_the_window_is_five_seconds_or_what_was_asked_within_half_the_grace_period(
    grace: int, settle: int | None, window: int
) -> None:
    assert DrainTimes(grace, settle).window_secs == window


@pytest.mark.parametrize(
    "times",
    [
        DrainTimes(180),
        DrainTimes(180, settle_secs=0),
        DrainTimes(180, settle_secs=0, has_probe_port=True),
    ],
)
def test_an_idle_gateway_whose_readiness_nobody_reads_ends_at_once(
    times: DrainTimes,
) -> None:
    house = House()

    async def stop() -> None:
        await asyncio.wait_for(drain_of(house, times).run(), 0.5)

    asyncio.run(stop())
    assert house.said == ["stop accepting", "drain"]


@pytest.mark.parametrize(
    "times",
    [
        DrainTimes(180, has_probe_port=True),
        DrainTimes(180, settle_secs=60),
        DrainTimes(180, settle_secs=60, has_probe_port=True),
    ],
)
def test_an_idle_gateway_whose_readiness_is_read_accepts_until_a_second_signal(
    times: DrainTimes,
) -> None:
    house = House()

    async def stop() -> None:
        drain = drain_of(house, times)
        running = asyncio.create_task(drain.run())
        await one_turn()
        assert house.said == []
        drain.hurry()
        await asyncio.wait_for(running, 0.5)

    asyncio.run(stop())
    assert house.said == ["stop accepting", "drain"]


def test_a_window_nobody_waits_for_ends_with_the_last_exchange() -> None:
    house = House()
    house.running.add("an exchange")

    async def stop() -> None:
        running = asyncio.create_task(drain_of(house, DrainTimes(180)).run())
        await one_turn()
        assert house.said == []
        house.end_last()
        await asyncio.wait_for(running, 0.5)

    asyncio.run(stop())
    assert house.said == ["stop accepting", "drain"]


def test_without_a_window_what_runs_is_finished_while_newcomers_are_refused() -> None:
    house = House()
    house.running.add("an exchange")

    async def stop() -> None:
        times = DrainTimes(180, settle_secs=0)
        running = asyncio.create_task(drain_of(house, times).run())
        await one_turn()
        assert house.said == ["stop accepting", "drain"]
        house.end_last()
        await asyncio.wait_for(running, 0.5)

    asyncio.run(stop())
    assert house.said == ["stop accepting", "drain"]


def test_what_outlasts_the_grace_period_is_cut() -> None:
    house = House()
    house.running.add("an exchange")

    async def stop() -> None:
        await asyncio.wait_for(drain_of(house, DrainTimes(0)).run(), 0.5)

    asyncio.run(stop())
    assert house.said == ["stop accepting", "drain", "cancel all"]
