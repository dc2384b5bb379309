"""power_of_two: the better of two candidates drawn at random."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from smgproxy.routing.policies.power_of_two import PowerOfTwoPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import draws, report, with_loads, workers

ANY = RoutingRequest("m")


def test_one_candidate_is_taken() -> None:
    (only,) = workers(1)
    assert PowerOfTwoPolicy().pick((only,), ANY) is only
    assert PowerOfTwoPolicy().pick((), ANY) is None


@pytest.mark.parametrize("first, second", [(0, 0), (0, 0.99), (0.99, 0), (0.5, 0.5)])
def test_the_two_are_never_the_same(first: float, second: float) -> None:
    a, b, c = with_loads(0, 1, 2)
    picked = PowerOfTwoPolicy(draw=draws(first, second)).pick((a, b, c), ANY)
    assert picked is not c


def test_every_pair_is_as_likely() -> None:
    fleet = with_loads(0, 1, 2)
    policy = PowerOfTwoPolicy(draw=random.Random(3).random)
    picked = Counter(policy.pick(fleet, ANY) for _ in range(6000))
    assert picked[fleet[2]] == 0
    assert picked[fleet[0]] == pytest.approx(4000, abs=200)


def test_expected_waits_are_compared_when_there_are_reports() -> None:
    a, b = fleet = with_loads(0, 9)
    report(a, num_running_reqs=5)
    report(b)
    assert PowerOfTwoPolicy().pick(fleet, ANY) is b
    assert PowerOfTwoPolicy("requests").pick(fleet, ANY) is a


def test_least_requests_looks_at_everybody() -> None:
    fleet = with_loads(3, 2, 1, 2, 3)
    policy = PowerOfTwoPolicy("least_requests")
    assert {policy.pick(fleet, ANY) for _ in range(20)} == {fleet[2]}
