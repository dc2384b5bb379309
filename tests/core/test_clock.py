"""Sweeper: one timer, again and again, until it is closed."""

from __future__ import annotations

import pytest

from smgproxy.core.clock import Sweeper
from tests.fakes.clock import FakeClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    clock.stand_in(monkeypatch, "smgproxy.core.clock")
    return clock


def test_sweeps_once_a_period_with_the_time_it_is(clock: FakeClock) -> None:
    swept: list[float] = []
    Sweeper(clock.call_later, 0.5, swept.append)
    clock.advance(1.6)
    assert swept == [1000.5, 1001.0, 1001.5]


def test_close_leaves_no_timer(clock: FakeClock) -> None:
    swept: list[float] = []
    sweeper = Sweeper(clock.call_later, 0.5, swept.append)
    sweeper.close()
    sweeper.close()
    clock.advance(2)
    assert swept == []
    assert clock.pending == 0


def test_a_sweep_may_close_its_sweeper(clock: FakeClock) -> None:
    swept: list[float] = []

    def sweep(now: float) -> None:
        swept.append(now)
        sweeper.close()

    sweeper = Sweeper(clock.call_later, 0.5, sweep)
    clock.advance(2)
    assert len(swept) == 1
    assert clock.pending == 0


def test_a_sweep_that_raises_does_not_end_all_sweeping(clock: FakeClock) -> None:
    swept: list[float] = []

    def sweep(now: float) -> None:
        swept.append(now)
        if len(swept) == 1:
            raise OSError("once")

    Sweeper(clock.call_later, 0.5, sweep)
    with pytest.raises(OSError):
        clock.advance(0.5)
    clock.advance(0.5)
    assert len(swept) == 2
