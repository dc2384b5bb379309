"""round_robin: each set of candidates has a turn of its own."""

from __future__ import annotations

import itertools

from smgproxy.routing.policies.round_robin import MAX_SETS, RoundRobinPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import workers

ANY = RoutingRequest("m")


def test_a_worker_that_leaves_for_a_while_shifts_nobodys_turn() -> None:
    fleet = a, b, c = workers(3)
    policy = RoundRobinPolicy()
    assert policy.pick(fleet, ANY) is a
    assert [policy.pick((a, b), ANY) for _ in range(3)] == [a, b, a]
    assert policy.pick(fleet, ANY) is b
    assert policy.pick(fleet, ANY) is c


def test_nobody_is_nobody() -> None:
    assert RoundRobinPolicy().pick((), ANY) is None


def test_only_so_many_sets_are_remembered() -> None:
    fleet = workers(14)
    policy = RoundRobinPolicy()
    for size in (5, 6, 7):
        for candidates in itertools.combinations(fleet, size):
            policy.pick(candidates, ANY)
    assert len(policy._turns) == MAX_SETS


def test_a_worker_that_left_is_in_no_set() -> None:
    a, b, c = workers(3)
    policy = RoundRobinPolicy()
    policy.pick((a, b), ANY)
    policy.pick((b, c), ANY)
    policy.forget(a)
    assert list(policy._turns) == [(b, c)]
