"""Sticky sessions on top of another policy."""

from __future__ import annotations

import pytest

from smgproxy.fleet.worker import Worker
from smgproxy.routing.pins import Pins
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy
from smgproxy.routing.policies.least_load import LeastLoadPolicy
from smgproxy.routing.policies.round_robin import RoundRobinPolicy
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.sticky import StickyPolicy
from tests.routing.fleet import draws, keyed, report, workers

FLEET = A, B, C = workers(3)


def _sticky(mode: str = "delegate", idle_secs: float = 0) -> StickyPolicy:
    inner = RoundRobinPolicy()
    return StickyPolicy(inner, Pins(idle_secs), mode=mode, draw=draws(0.0))


def _send(
    policy: StickyPolicy, request: RoutingRequest, fleet: tuple[Worker, ...] = FLEET
) -> Worker | None:
    """Pick, and leave the request in flight."""
    worker = policy.pick(fleet, request)
    if worker is not None and request.pin is not None:
        request.pin.enter(worker)
    return worker


@pytest.fixture(autouse=True)
def _nothing_in_flight() -> None:
    for worker in FLEET:
        worker.active_keys = 0


def test_keyed_requests_stay_and_the_others_take_turns() -> None:
    policy = _sticky()
    assert policy.pick(FLEET, keyed("k")) is A
    assert [policy.pick(FLEET, keyed()) for _ in range(3)] == [B, C, A]
    assert policy.pick(FLEET, keyed("k")) is A
    assert policy.branches == {"vacant": 1, "occupied_hit": 1}


def test_turns_of_a_conversation_share_their_worker_by_header_and_by_rid() -> None:
    policy = _sticky()
    requests = [
        *(keyed("conv_t1"), keyed("conv_t2_r1"), keyed("conv")),
        *(keyed(rid="conv"), keyed(rid="conv_t9")),
    ]
    assert [policy.pick(FLEET, one) for one in requests] == [A] * 5
    assert policy.sources == {"header": 3, "rid": 2}


def test_the_header_wins_over_rid() -> None:
    policy = _sticky()
    policy.pick(FLEET, keyed("h"))
    policy.pick(FLEET, keyed("r"))
    assert policy.pick(FLEET, keyed("h", rid="r")) is A


def test_listed_headers_replace_the_usual_one() -> None:
    policy = StickyPolicy(RoundRobinPolicy(), Pins(), (b"x-one", b"x-two"))
    usual = RoutingRequest("m", {b"x-smg-routing-key": b"k"})
    policy.pick(FLEET, usual)
    assert len(policy.pins) == 0
    policy.pick(FLEET, RoutingRequest("m", {b"x-two": b"k", b"x-one": b"\xff"}))
    assert policy.pins.find("m", "k", 0) is not None


def test_pins_are_never_shared_between_models() -> None:
    policy = _sticky()
    assert policy.pick(FLEET, keyed("k", model="m")) is A
    assert policy.pick(FLEET, keyed("k", model="n")) is B
    assert policy.pick(FLEET, keyed("k", model="m")) is A


def test_delegate_moves_a_key_for_good() -> None:
    policy = _sticky()
    assert policy.pick(FLEET, keyed("k")) is A
    assert policy.pick((B, C), keyed("k")) is B
    assert policy.pick(FLEET, keyed("k")) is B
    # The worker it had before is the one it falls back to.
    assert policy.pick((A, C), keyed("k")) is A


def test_other_modes_bring_a_key_back() -> None:
    policy = _sticky("random")
    assert policy.pick(FLEET, keyed("k")) is A
    assert policy.pick((B, C), keyed("k")) is B
    assert policy.pick(FLEET, keyed("k")) is A


def test_two_requests_of_a_key_overlap_and_the_third_is_placed_anew() -> None:
    """Six at once land A A B B C C, and the key stays with the last worker."""
    policy = _sticky()
    assert [_send(policy, keyed("k")) for _ in range(6)] == [A, A, B, B, C, C]
    assert policy.branches == {"vacant": 1, "occupied_hit": 3, "cap_respill": 2}
    pin = policy.pins.find("m", "k", 0)
    assert pin is not None and pin.first is C


def test_the_cap_counts_the_keys_requests_not_the_workers() -> None:
    policy = _sticky()
    A.load = 100
    assert [_send(policy, keyed("k")) for _ in range(2)] == [A, A]
    A.load = 0
    for request in (keyed("x"), keyed("x")):
        assert _send(policy, request) is B


def test_the_pin_stays_when_the_new_worker_has_two_of_its_requests_too() -> None:
    policy = _sticky()
    for _ in range(6):
        _send(policy, keyed("k"))
    pin = policy.pins.find("m", "k", 0)
    assert pin is not None
    assert _send(policy, keyed("k")) is A  # its turn; three there now
    assert pin.first is C


def test_a_request_that_ended_makes_room_again() -> None:
    policy = _sticky()
    first = keyed("k")
    _send(policy, first)
    _send(policy, keyed("k"))
    assert first.pin is not None
    first.pin.leave(A)
    assert _send(policy, keyed("k")) is A


def test_min_group_spreads_active_keys() -> None:
    policy = _sticky("min_group")
    placed = [_send(policy, keyed(f"k{number}")) for number in range(3)]
    assert set(placed) == set(FLEET)


def test_a_key_is_not_pinned_when_the_inner_policy_picks_nobody() -> None:
    (only,) = fleet = workers(1)
    report(only, num_waiting_reqs=9)
    policy = StickyPolicy(LeastLoadPolicy(most_waiting=3), Pins())
    assert policy.pick(fleet, keyed("k")) is None
    assert len(policy.pins) == 0


def test_unused_keys_are_dropped() -> None:
    policy = _sticky(idle_secs=10)
    policy.pick(FLEET, keyed("k", now=0))
    policy.sweep(11)
    assert len(policy.pins) == 0


def test_it_is_known_by_the_policy_beneath() -> None:
    policy = StickyPolicy(CacheAwarePolicy(), Pins())
    assert (policy.name, policy.reads_text) == ("cache_aware", True)


def test_nobody_available_is_counted() -> None:
    policy = _sticky()
    assert policy.pick((), keyed("k")) is None
    assert policy.branches == {"no_healthy_workers": 1}
