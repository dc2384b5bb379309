"""cache_aware: where the prompt's beginning is cached, unless it is too busy there."""

from __future__ import annotations

import dataclasses
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy, CacheAwareSettings
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import (
    asked,
    draws,
    prompt,
    report,
    tokens,
    with_loads,
    workers,
)

DEFAULTS = CacheAwareSettings(
    threshold=0.3, abs_threshold=64, rel_threshold=1.5, max_tree_size=1 << 20
)


def _policy(**changes: object) -> CacheAwarePolicy:
    """As the gateway's flags have it; new prompts go to the first idle worker."""
    settings = dataclasses.replace(DEFAULTS, **changes)  # type: ignore[arg-type]
    return CacheAwarePolicy(settings, draws(0.0))


def _at(worker: Worker, policy: CacheAwarePolicy, request: RoutingRequest) -> None:
    """Have ``worker`` see a prompt."""
    assert policy.pick((worker,), request) is worker
    policy.branches.clear()


@pytest.mark.parametrize("matched, is_hit", [(30, False), (31, True)])
def test_affinity_needs_strictly_more_than_the_threshold(
    matched: int, is_hit: bool
) -> None:
    a, b = fleet = workers(2)
    policy = _policy()
    _at(b, policy, prompt("x" * matched))
    worker = policy.pick(fleet, prompt("x" * matched + "y" * (100 - matched)))
    assert worker is (b if is_hit else a)
    branch = "tree_match" if is_hit else "expected_wait_fallback"
    assert policy.branches == {branch: 1}


def test_the_ratio_counts_characters_not_bytes() -> None:
    a, b = fleet = workers(2)
    policy = _policy()
    _at(b, policy, prompt("é" * 20))
    assert policy.pick(fleet, prompt("é" * 20 + "y" * 80)) is a
    _at(b, policy, prompt("x" * 31))
    assert policy.pick(fleet, prompt("x" * 31 + "é" * 69)) is b


def test_a_conversation_stays_where_its_turns_were() -> None:
    fleet = workers(3)
    policy = _policy()
    text = "system prompt and a first question"
    _at(fleet[1], policy, prompt(text))
    for turn in range(10):
        text += f" answer {turn} and question {turn}"
        assert policy.pick(fleet, prompt(text)) is fleet[1]


def test_the_eighth_request_of_one_prompt_is_the_first_to_leave() -> None:
    fleet = workers(3)
    policy = _policy()
    placed = []
    for _ in range(8):
        worker = policy.pick(fleet, prompt("x" * 100))
        assert worker is not None
        worker.load += 1
        placed.append(worker)
    assert placed[:7] == [fleet[0]] * 7
    assert placed[7] is not fleet[0]
    assert policy.branches == {"expected_wait_fallback": 1, "tree_match": 6, "spill": 1}


def test_the_margin_of_the_spill_gate_can_be_tighter() -> None:
    fleet = workers(3)
    policy = _policy(abs_threshold=2, rel_threshold=1.1)
    placed = []
    for _ in range(5):
        worker = policy.pick(fleet, prompt("x" * 100))
        assert worker is not None
        worker.load += 1
        placed.append(worker)
    assert placed[:4] == [fleet[0]] * 4
    assert placed[4] is not fleet[0]


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=6),
    st.integers(0, 8) | st.just(64),
    st.sampled_from([1.0, 1.1, 1.5]),
)
def test_a_holder_is_left_only_when_far_busier_than_the_mean(
    loads: list[int], cap: int, ratio: float
) -> None:
    fleet = with_loads(*loads)
    policy = _policy(abs_threshold=cap, rel_threshold=ratio)
    _at(fleet[0], policy, prompt("x" * 50))
    policy.pick(fleet, prompt("x" * 50))
    mean = sum(loads) / len(loads)
    margin = min(cap, max(4, 2 * math.sqrt(mean)))
    is_hot = loads[0] > max(ratio * mean, mean + margin)
    assert policy.branches == {"spill" if is_hot else "tree_match": 1}


def test_a_spill_makes_a_second_holder() -> None:
    a, b, c = fleet = workers(3)
    policy = _policy()
    a.load, b.load = 20, 1
    _at(a, policy, prompt("x" * 50))
    assert policy.pick(fleet, prompt("x" * 50)) is c
    c.load = 1
    # b is idle now and not asked: c holds the prompt, and is not hot.
    b.load = 0
    assert policy.pick(fleet, prompt("x" * 50)) is c


def test_of_several_holders_the_one_with_the_lowest_wait_is_taken() -> None:
    a, b, c = fleet = workers(3)
    policy = _policy()
    for worker in (a, b):
        _at(worker, policy, prompt("x" * 50))
    report(a, num_running_reqs=3)
    report(b, num_running_reqs=1)
    report(c)
    assert policy.pick(fleet, prompt("x" * 50)) is b


def test_a_miss_goes_to_the_lowest_wait() -> None:
    a, b = fleet = workers(2)
    report(a, num_running_reqs=1)
    report(b)
    assert _policy().pick(fleet, prompt("x" * 50)) is b


def test_a_holder_that_is_not_available_is_a_miss() -> None:
    a, b, c = workers(3)
    policy = _policy()
    _at(a, policy, prompt("x" * 50))
    assert policy.pick((b, c), prompt("x" * 50)) is b
    assert policy.branches == {"expected_wait_fallback": 1}


def test_a_worker_that_left_holds_nothing() -> None:
    a, b, c = workers(3)
    policy = _policy()
    _at(a, policy, prompt("x" * 50))
    policy.forget(a)
    tree = policy.indexes["m"].texts.tree
    assert (tree.size, policy.indexes["m"].texts.workers) == (0, 0)
    assert policy.pick((b, c), prompt("x" * 50)) is b
    while policy.sweep(0):
        pass
    assert policy.indexes["m"].texts.workers == 1
    assert list(tree.sizes.values()) == [50]


def test_text_and_tokens_never_match_each_other() -> None:
    a, b = fleet = workers(2)
    policy = _policy()
    _at(b, policy, tokens(*range(64)))
    assert policy.pick(fleet, prompt("x" * 64)) is a
    assert policy.pick(fleet, tokens(*range(64))) is b


def test_tokens_match_in_whole_pages() -> None:
    a, b = fleet = workers(2)
    policy = _policy(block_size=4)
    _at(b, policy, tokens(*range(11)))  # two pages of it
    assert policy.pick(fleet, tokens(*range(8), 99, 99)) is b
    assert policy.pick(fleet, tokens(*range(7), 98, 98, 98, 98)) is b
    assert policy.pick(fleet, tokens(0, 1, 2, 97, 97, 97)) is a


def test_less_than_a_page_never_matches() -> None:
    a, b = fleet = workers(2)
    policy = _policy(block_size=16)
    _at(b, policy, tokens(*range(15)))
    assert policy.pick(fleet, tokens(*range(15))) is a
    assert len(policy.indexes["m"].tokens.tree) == 0


def test_prompts_of_different_partitions_never_match() -> None:
    a, b = fleet = workers(2)
    policy = _policy()
    _at(b, policy, prompt("x" * 50, "salt-1"))
    assert policy.pick(fleet, prompt("x" * 50, "salt-1")) is b
    assert policy.pick(fleet, prompt("x" * 50, "salt-2")) is a
    other = _policy()
    _at(b, other, prompt("x" * 50, "salt-1"))
    assert other.pick(fleet, prompt("x" * 50)) is a


def test_the_mark_of_a_partition_is_no_part_of_the_ratio() -> None:
    a, b = fleet = workers(2)
    policy = _policy()
    _at(b, policy, prompt("x" * 3, "partition"))
    assert policy.pick(fleet, prompt("x" * 3 + "y" * 7, "partition")) is a
    ids = asked("m", input_ids=range(16), partition="p")
    _at(b, policy, ids)
    same = asked("m", input_ids=range(16), partition="p")
    assert policy.pick(fleet, same) is b
    assert policy.pick(fleet, tokens(*range(16))) is a


def test_models_share_no_tree() -> None:
    a, b = fleet = workers(2)
    policy = _policy()
    _at(b, policy, prompt("x" * 50))
    other = asked("n", read_text=lambda: "x" * 50)
    assert policy.pick(fleet, other) is a
    policy.forget_model("m")
    assert list(policy.indexes) == ["n"]


def test_a_request_without_anything_to_match_is_balanced_and_not_recorded() -> None:
    a, b = fleet = workers(2)
    a.load = 1
    policy = _policy()
    assert policy.pick(fleet, RoutingRequest("m")) is b
    assert len(policy.indexes["m"].texts.tree) == 0


def test_a_hot_cache_suspends_affinity_but_not_recording() -> None:
    a, b = fleet = workers(2)
    policy = _policy(usage_limit=0.9)
    _at(b, policy, prompt("x" * 50))
    report(a)
    report(b, token_usage=0.95)
    assert policy.pick(fleet, prompt("x" * 50)) is a
    report(a, num_running_reqs=9)
    report(b, token_usage=0.9)
    assert policy.pick(fleet, prompt("x" * 50)) is b
    assert policy.indexes["m"].texts.tree.size == 100


def test_uneven_caches_suspend_affinity() -> None:
    a, b = fleet = workers(2)
    policy = _policy(usage_spread=0.3)
    _at(b, policy, prompt("x" * 50))
    report(b, token_usage=0.5)
    assert policy.pick(fleet, prompt("x" * 50)) is b  # nobody to compare with
    report(a, token_usage=0.1)
    assert policy.pick(fleet, prompt("x" * 50)) is a


def test_a_decay_makes_a_backlogged_holder_less_preferred() -> None:
    a, b = fleet = workers(2)
    for worker, queued in ((a, 400), (b, 0)):
        # Prefill waits at a; b has less throughput, and so the longer wait.
        report(worker, num_waiting_uncached_tokens=queued, gen_throughput=2000)
    report(b, gen_throughput=1000)
    plain, decaying = _policy(), _policy(overlap_decay=1.0)
    for policy in (plain, decaying):
        for worker in fleet:
            _at(worker, policy, prompt("x" * 50))
    assert plain.pick(fleet, prompt("x" * 50)) is a
    assert decaying.pick(fleet, prompt("x" * 50)) is b


def test_a_temperature_draws_among_the_holders() -> None:
    fleet = workers(3)
    settings = dataclasses.replace(DEFAULTS, temperature=1.0)
    picked = set()
    for draw in (0.0, 0.5, 0.99):
        policy = CacheAwarePolicy(settings, draws(draw))
        for worker in fleet:
            _at(worker, policy, prompt("x" * 50))
        picked.add(policy.pick(fleet, prompt("x" * 50)))
    assert picked == set(fleet)


def test_how_much_was_matched_is_counted_by_tenths() -> None:
    policy = _policy()
    (a,) = workers(1)
    _at(a, policy, prompt("x" * 50))
    for tail in ("", "y" * 50, "z" * 51):
        policy.pick((a,), prompt("x" * 50 + tail))
    assert policy.ratios[0] == 1  # nothing was known of the first
    assert policy.ratios[10] == 1
    assert policy.ratios[5] == 2  # at most a half
    assert policy.ratio_sum == pytest.approx(1 + 50 / 100 + 50 / 101)


def test_a_hash_index_goes_by_boundaries() -> None:
    a, b = fleet = workers(2)
    policy = _policy(index="hash", boundaries=(4, 8), ttl_secs=60)
    _at(b, policy, tokens(*range(10), now=0))
    assert policy.pick(fleet, tokens(*range(9), now=1)) is b
    assert policy.pick(fleet, tokens(0, 1, 2, 3, 99, 99, 99, 99, now=1)) is b
    assert policy.pick(fleet, tokens(*range(10), now=70)) is a
    assert policy.branches == {}  # they are of the tree


def test_a_hash_index_balances_what_it_cannot_place() -> None:
    a, b = fleet = workers(2)
    policy = _policy(index="hash", boundaries=(4,))
    for request in (tokens(1, 2, 3), prompt("x" * 99)):
        b.load, a.load = 0, 1
        assert policy.pick(fleet, request) is b
        b.load, a.load = 1, 0
        assert policy.pick(fleet, request) is a
    assert len(policy.indexes["m"].heads) == 0


def test_a_hash_index_spills_too() -> None:
    a, b, c = fleet = workers(3)
    policy = _policy(index="hash", boundaries=(4,))
    _at(a, policy, tokens(1, 2, 3, 4))
    a.load, b.load = 30, 1
    assert policy.pick(fleet, tokens(1, 2, 3, 4)) is c


def test_many_distinct_prompts_stay_within_the_budget() -> None:
    fleet = workers(4)
    policy = _policy(max_tree_size=20_000)
    for number in range(3000):
        policy.pick(fleet, prompt(f"{number * 7919 % 3001} " + "x" * 100))
        if not number % 100:
            while policy.sweep(0):
                pass
    tree = policy.indexes["m"].texts.tree
    assert tree.size <= 22_500
    assert policy.pick((), prompt("x")) is None


def test_what_everybody_holds_burdens_nobody_more_than_others() -> None:
    """Only eight holders are compared for one request, but not always the same."""
    fleet = workers(20)
    policy = CacheAwarePolicy(DEFAULTS, random.Random(4).random)
    for worker in fleet:
        _at(worker, policy, prompt("x" * 50))
    counts = Counter(policy.pick(fleet, prompt("x" * 50)) for _ in range(2000))
    assert all(50 < counts[worker] < 150 for worker in fleet)
    assert policy.branches == {"tree_match": 2000}
