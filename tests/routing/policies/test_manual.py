"""manual: a routing key keeps its worker."""

from __future__ import annotations

import pytest

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policies.manual import ManualPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import draws, keyed, with_loads, workers


def _first() -> ManualPolicy:
    """Places new keys at the first candidate."""
    return ManualPolicy(draw=draws(0.0))


def test_a_key_stays_where_it_was_first_placed() -> None:
    fleet = workers(3)
    policy = ManualPolicy(draw=draws(0.5, 0.0, 0.9))
    assert [policy.pick(fleet, keyed("k")) for _ in range(4)] == [fleet[1]] * 4
    assert policy.branches == {"vacant": 1, "occupied_hit": 3}
    assert len(policy.pins) == 1


def test_without_a_key_the_mode_picks_and_pins_nothing() -> None:
    fleet = workers(3)
    policy = ManualPolicy(draw=draws(0.0, 0.5, 0.9))
    assert [policy.pick(fleet, keyed()) for _ in range(3)] == [*fleet]
    assert policy.branches == {"no_routing_id": 3}
    assert len(policy.pins) == 0


def test_suffixes_of_a_header_key_are_part_of_it() -> None:
    policy = _first()
    for key in ("q", "q_t1", "q_t2"):
        policy.pick(workers(2), keyed(key))
    assert policy.branches == {"vacant": 3}


def test_a_key_that_is_not_ascii_is_none() -> None:
    policy = _first()
    policy.pick(workers(2), keyed("ключ"))
    assert policy.branches == {"no_routing_id": 1}


def test_rid_is_a_key_only_under_the_override_and_without_suffixes() -> None:
    fleet = workers(2)
    without, under = _first(), ManualPolicy(reads_rid=True, draw=draws(0.0))
    for policy in (without, under):
        policy.pick(fleet, keyed(rid="conv_t1"))
        policy.pick(fleet, keyed(rid="conv_t2_r1"))
    assert without.branches == {"no_routing_id": 2}
    assert under.branches == {"vacant": 1, "occupied_hit": 1}


def test_a_key_returns_to_its_first_worker_when_that_is_back() -> None:
    a, b, c = fleet = workers(3)
    policy = _first()
    assert policy.pick(fleet, keyed("k")) is a
    assert policy.pick((b, c), keyed("k")) is b
    assert policy.pick((b, c), keyed("k")) is b
    assert policy.pick(fleet, keyed("k")) is a
    assert policy.branches == {"vacant": 1, "occupied_miss": 1, "occupied_hit": 2}


def test_of_two_remembered_workers_the_newer_is_replaced() -> None:
    a, b, c = fleet = workers(3)
    policy = _first()
    policy.pick(fleet, keyed("k"))
    policy.pick((b, c), keyed("k"))
    assert policy.pick((c,), keyed("k")) is c
    assert policy.pick((b, c), keyed("k")) is c
    assert policy.pick(fleet, keyed("k")) is a


def test_new_workers_move_no_key() -> None:
    a, b, c = workers(3)
    policy = _first()
    assert policy.pick((b,), keyed("k")) is b
    assert policy.pick((a, b, c), keyed("k")) is b


def test_any_number_of_a_keys_requests_go_to_its_worker() -> None:
    fleet = workers(3)
    policy = _first()
    for _ in range(5):
        request = keyed("k")
        worker = policy.pick(fleet, request)
        assert worker is fleet[0]
        assert request.pin is not None
        request.pin.enter(worker)


@pytest.mark.parametrize("mode", ["min_load", "delegate"])
def test_delegate_means_least_load_here(mode: str) -> None:
    fleet = with_loads(2, 0, 1)
    assert ManualPolicy(mode).pick(fleet, keyed("k")) is fleet[1]


def test_pins_are_never_shared_between_models() -> None:
    # Shared, a key's two places would be one short, and it would move all the time.
    fleets = {model: workers(2) for model in "mno"}
    policy = ManualPolicy(draw=draws(0.0, 0.9, 0.0, 0.9, 0.0, 0.9))
    first: dict[str, Worker | None] = {}
    for model in 3 * "mno":
        worker = policy.pick(fleets[model], keyed("k", model=model))
        assert worker is first.setdefault(model, worker)
    assert policy.branches == {"vacant": 3, "occupied_hit": 6}
    assert len(policy.pins) == 3


def test_of_a_worker_with_two_models_each_has_pins_of_its_own() -> None:
    fleet = workers(2)
    policy = ManualPolicy(draw=draws(0.0, 0.9))
    assert policy.pick(fleet, keyed("k", model="m")) is fleet[0]
    assert policy.pick(fleet, keyed("k", model="n")) is fleet[1]
    assert policy.pick(fleet, keyed("k", model="m")) is fleet[0]


def test_keys_are_dropped_when_unused() -> None:
    policy = ManualPolicy(idle_secs=10)
    policy.pick(workers(1), keyed("k", now=0))
    policy.sweep(10)
    assert len(policy.pins) == 0


def test_nobody_available_is_counted() -> None:
    policy = _first()
    assert policy.pick((), RoutingRequest("m")) is None
    assert policy.branches == {"no_healthy_workers": 1}
