"""prefix_hash: prompts that begin alike go to one worker, unless it is too busy."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policies.prefix_hash import PrefixHashPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import (
    KEY,
    asked,
    draws,
    keyed,
    prompt,
    tokens,
    with_loads,
    workers,
)

FLEET = workers(4)


def _pick(policy: PrefixHashPolicy, request: RoutingRequest) -> Worker:
    worker = policy.pick(FLEET, request)
    assert worker is not None
    return worker


def test_prompts_with_one_head_have_one_owner() -> None:
    policy = PrefixHashPolicy(token_count=2)
    for head in ("12345678", "abcdefgh", "ABCDEFGH"):
        owners = {_pick(policy, prompt(head + tail)) for tail in ("", "x", "y" * 99)}
        assert len(owners) == 1
    assert policy.branches == {"ring_hit": 9}


def test_a_token_is_four_characters() -> None:
    policy = PrefixHashPolicy(token_count=2)
    owners = {_pick(policy, prompt(f"1234567{n}")) for n in range(30)}
    assert len(owners) > 1
    owners = {_pick(policy, prompt(f"12345678{n}")) for n in range(30)}
    assert len(owners) == 1


def test_tokens_win_over_text_and_a_key_wins_over_both() -> None:
    policy = PrefixHashPolicy(token_count=3)
    both = asked("m", read_text=lambda: "text", input_ids=(1, 2, 3, 4))
    assert _pick(policy, both) is _pick(policy, tokens(1, 2, 3, 9))
    all_three = asked("m", {KEY: b"k"}, read_text=lambda: "t", input_ids=[1])
    assert _pick(policy, all_three) is _pick(policy, keyed("k"))


def test_a_malformed_token_hint_leaves_the_text() -> None:
    policy = PrefixHashPolicy()
    headers = {b"x-smg-routing-tokens": b"1, 2"}
    hinted = asked("m", headers, read_text=lambda: "some text")
    assert _pick(policy, hinted) is _pick(policy, prompt("some text"))


def test_without_anything_to_hash_the_least_busy_is_taken() -> None:
    fleet = with_loads(2, 1, 3)
    policy = PrefixHashPolicy()
    assert policy.pick(fleet, RoutingRequest("m")) is fleet[1]
    assert policy.branches == {"no_routing_key": 1}


def test_the_request_being_placed_counts_in_the_mean() -> None:
    """Two workers and a margin of 10: 22 stay, the 23rd goes, then every second."""
    fleet = workers(2)
    policy = PrefixHashPolicy()
    owner = policy.pick(fleet, keyed("k"))
    assert owner is not None
    placed = []
    for _ in range(28):
        worker = policy.pick(fleet, keyed("k"))
        assert worker is not None
        worker.load += 1
        placed.append(worker is owner)
    assert placed == [True] * 22 + [False, True, False, True, False, True]
    assert policy.branches == {"ring_hit": 26, "load_balance_walk": 3}


def test_both_thresholds_must_be_passed() -> None:
    fleet = workers(2)
    owner = PrefixHashPolicy().pick(fleet, keyed("k"))
    assert owner is not None
    owner.load = 9
    assert PrefixHashPolicy(load_factor=1.25).pick(fleet, keyed("k")) is owner
    tight = PrefixHashPolicy(load_factor=1.25, abs_threshold=2)
    assert tight.pick(fleet, keyed("k")) is not owner
    wide = PrefixHashPolicy(load_factor=1.9, abs_threshold=2)
    assert wide.pick(fleet, keyed("k")) is owner


def test_the_owner_is_taken_when_everybody_is_too_busy() -> None:
    (only,) = fleet = with_loads(50)
    policy = PrefixHashPolicy(load_factor=1.0, abs_threshold=0)
    only.load = 50
    assert policy.pick(fleet, keyed("k")) is only


def test_the_head_ends_at_the_deepest_boundary_reached() -> None:
    policy = PrefixHashPolicy(boundaries=(2, 4), token_count=1)
    for first in range(20):
        four = _pick(policy, tokens(first, 1, 2, 3))
        assert four is _pick(policy, tokens(first, 1, 2, 3, 9, 9))
        two = _pick(policy, tokens(first, 1))
        assert two is _pick(policy, tokens(first, 1, 7))
    one = _pick(policy, tokens(5))
    assert one is _pick(PrefixHashPolicy(token_count=1), tokens(5))


def test_a_busy_owner_makes_way_for_that_of_a_shallower_head() -> None:
    policy = PrefixHashPolicy(boundaries=(1, 2), abs_threshold=2, draw=draws(0.0))
    plain = PrefixHashPolicy(token_count=1)
    for number in range(30):
        for worker in FLEET:
            worker.load = 0
        deep = _pick(policy, tokens(number, 1))
        shallow = _pick(plain, tokens(number))
        if deep is shallow:
            continue
        deep.load = 20
        assert _pick(policy, tokens(number, 1)) is shallow
    for worker in FLEET:
        worker.load = 0


def test_nobody_available_is_counted() -> None:
    policy = PrefixHashPolicy()
    assert policy.pick((), keyed("k")) is None
    assert policy.branches == {"no_healthy_workers": 1}
