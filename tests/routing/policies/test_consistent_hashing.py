"""consistent_hashing: where keys come from, and what they do."""

from __future__ import annotations

from collections import Counter

import pytest

from smgproxy.routing.policies.consistent_hashing import ConsistentHashingPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import KEY, draws, keyed, with_loads, workers

FLEET = workers(3)
TARGET = b"x-smg-target-worker"


def _asked(**headers: bytes) -> RoutingRequest:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return RoutingRequest("m", named)


def _target(value: bytes, key: bytes = b"") -> RoutingRequest:
    return RoutingRequest("m", {TARGET: value, KEY: key})


def test_a_key_stays_with_its_worker_whatever_the_loads() -> None:
    policy = ConsistentHashingPolicy()
    first = policy.pick(FLEET, keyed("k"))
    loaded = with_loads(0, 0, 0)
    for worker in loaded:
        worker.load = 0 if first and worker.url != first.url else 500
    again = policy.pick(loaded, keyed("k"))
    assert first and again and again.url == first.url
    assert policy.branches == {"routing_key_hit": 2}


@pytest.mark.parametrize("value, place", [(b"0", 0), (b"00", 0), (b"+1", 1), (b"2", 2)])
def test_a_target_wins_over_a_key(value: bytes, place: int) -> None:
    policy = ConsistentHashingPolicy()
    assert policy.pick(FLEET, _target(value, b"k")) is FLEET[place]
    assert policy.branches == {"target_worker_hit": 1}


@pytest.mark.parametrize("value", [b"-1", b"x", b"3", b"99999999999"])
def test_a_bad_target_is_nobody(value: bytes) -> None:
    policy = ConsistentHashingPolicy()
    assert policy.pick(FLEET, _target(value, b"k")) is None
    assert policy.branches == {"target_worker_miss": 1}


def test_an_empty_target_is_as_if_absent() -> None:
    policy = ConsistentHashingPolicy()
    assert policy.pick(FLEET, _target(b"", b"k")) is policy.pick(FLEET, keyed("k"))


def test_targets_count_the_available_workers_only() -> None:
    policy = ConsistentHashingPolicy()
    assert policy.pick(FLEET[1:], _target(b"0")) is FLEET[1]
    assert policy.pick(FLEET[1:], _target(b"2")) is None


def test_one_key_is_one_worker_whatever_header_brought_it() -> None:
    policy = ConsistentHashingPolicy((b"x-session",), reads_rid=True)
    for number in range(20):
        key = f"key-{number}"
        by_name = policy.pick(FLEET, _asked(x_session=key.encode()))
        assert by_name is policy.pick(FLEET, keyed(key))
        assert by_name is policy.pick(FLEET, keyed(rid=f"{key}_t3_r1"))


def test_suffixes_of_header_keys_are_part_of_the_key() -> None:
    policy = ConsistentHashingPolicy(reads_rid=True)
    different = [
        policy.pick(FLEET, keyed(f"{n}_t1")) is not policy.pick(FLEET, keyed(f"{n}"))
        for n in range(60)
    ]
    assert 25 < sum(different) < 55  # two of three by chance


def test_the_header_wins_over_rid() -> None:
    policy = ConsistentHashingPolicy(reads_rid=True)
    for number in range(20):
        both = keyed(f"h{number}", rid=f"r{number}")
        assert policy.pick(FLEET, both) is policy.pick(FLEET, keyed(f"h{number}"))


def test_rid_counts_only_under_the_override() -> None:
    policy = ConsistentHashingPolicy(draw=draws(0.0))
    assert policy.pick(FLEET, keyed(rid="conv")) is FLEET[0]
    assert policy.branches == {"random_fallback": 1}


@pytest.mark.parametrize("bad", [b"", b"k" * 129, b"\xff"])
def test_a_key_that_is_none_makes_way_for_the_next_source(bad: bytes) -> None:
    policy = ConsistentHashingPolicy()
    policy.pick(FLEET, _asked(x_smg_routing_key=bad, cookie=b"c"))
    assert policy.branches == {"implicit_key_hit": 1}


def test_a_forwarded_address_wins_over_a_cookie() -> None:
    policy = ConsistentHashingPolicy()
    for number in range(20):
        address = f"10.0.0.{number}".encode()
        both = policy.pick(FLEET, _asked(x_forwarded_for=address, cookie=b"c"))
        assert both is policy.pick(FLEET, _asked(x_forwarded_for=address))
    assert policy.pick(FLEET, _asked(x_forwarded_for=b"", cookie=b"c")) is policy.pick(
        FLEET, _asked(cookie=b"c")
    )


@pytest.mark.parametrize("credential", [b"Bearer x", b"Basic x", b"x"])
def test_authorization_is_never_a_key(credential: bytes) -> None:
    """All traffic of one API key would go to one worker."""
    policy = ConsistentHashingPolicy()
    asked = [_asked(authorization=credential) for _ in range(300)]
    counts = Counter(policy.pick(FLEET, one) for one in asked)
    assert all(60 < counts[worker] < 140 for worker in FLEET)
    assert policy.branches == {"random_fallback": 300}


def test_nobody_available_is_counted() -> None:
    policy = ConsistentHashingPolicy()
    assert policy.pick((), keyed("k")) is None
    assert policy.branches == {"no_healthy_workers": 1}
