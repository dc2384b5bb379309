"""Which workers a routing key is used to."""

from __future__ import annotations

from collections import Counter

import pytest

from smgproxy.routing.pins import Pin, Pins, assign
from tests.routing.fleet import draws, with_loads, workers


def test_keys_of_different_models_never_meet() -> None:
    a, b = workers(2)
    pins = Pins()
    pins.add("m", "k", a, 0)
    assert pins.find("n", "k", 0) is None
    pins.add("n", "k", b, 0)
    found = pins.find("m", "k", 0)
    assert found is not None and found.first is a
    assert len(pins) == 2


def test_a_key_unused_for_too_long_is_dropped() -> None:
    (a,) = workers(1)
    pins = Pins(idle_secs=100)
    pins.add("m", "old", a, 0)
    pins.add("m", "used", a, 0)
    pins.find("m", "used", 50)
    assert not pins.sweep(99)
    assert len(pins) == 2
    assert not pins.sweep(100)
    assert pins.find("m", "old", 100) is None
    assert pins.find("m", "used", 100) is not None


def test_keys_are_never_too_old_when_the_limit_is_0() -> None:
    (a,) = workers(1)
    pins = Pins(idle_secs=0)
    pins.add("m", "k", a, 0)
    pins.sweep(1e9)
    assert len(pins) == 1


def test_a_sweep_drops_a_slice_at_a_time() -> None:
    (a,) = workers(1)
    pins = Pins(idle_secs=1)
    for number in range(5000):
        pins.add("m", f"{number}", a, 0)
    slices = 1
    while pins.sweep(9):
        slices += 1
    assert (len(pins), slices) == (0, 3)


def test_keys_beyond_the_limit_push_out_those_unused_longest() -> None:
    (a,) = workers(1)
    pins = Pins(most=640)
    pins.add("m", "hot", a, 0)
    for number in range(20_000):
        pins.add("m", f"{number}", a, 0)
        pins.find("m", "hot", 0)
    assert len(pins) <= 640
    assert pins.find("m", "hot", 0) is not None


def test_requests_in_flight_are_counted_by_worker_and_key() -> None:
    a, b = workers(2)
    one, other = Pin(a, 0), Pin(a, 0)
    for pin in (one, one, other):
        pin.enter(a)
    one.enter(b)
    assert (one.in_flight(a), one.in_flight(b), other.in_flight(a)) == (2, 1, 1)
    assert (a.active_keys, b.active_keys) == (2, 1)
    one.leave(a)
    assert a.active_keys == 2
    one.leave(a)
    one.leave(b)
    other.leave(a)
    assert (a.active_keys, b.active_keys, one.in_flight(a)) == (0, 0, 0)


def test_a_worker_that_is_registered_again_is_the_same_to_its_keys() -> None:
    (old, other), (new, _) = workers(2), workers(2)
    pin = Pin(old, 0)
    pin.return_to_first(other)
    old.is_removed = True
    assert pin.among((other,)) is other
    assert pin.among((other, new)) is new
    back = Pin(other, 0)
    back.return_to_first(old)
    assert back.among((new,)) is new
    assert back.among(()) is None


def test_modes_place_a_new_key() -> None:
    fleet = a, b, c = with_loads(3, 1, 2)
    a.active_keys, b.active_keys, c.active_keys = 1, 5, 0
    assert assign("random", fleet, draws(0.99)) is c
    assert assign("min_load", fleet, draws(0.0)) is b
    assert assign("min_group", fleet, draws(0.0)) is c


@pytest.mark.parametrize("mode", ["random", "min_load", "min_group"])
def test_a_tie_is_broken_by_chance(mode: str) -> None:
    fleet = workers(3)
    places = Counter(assign(mode, fleet, draws(n / 30)) for n in range(30))
    assert places == dict.fromkeys(fleet, 10)
