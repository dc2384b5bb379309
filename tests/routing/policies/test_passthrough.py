"""passthrough: always the first candidate."""

from __future__ import annotations

import logging

import pytest

from smgproxy.routing.policies.passthrough import PassthroughPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import workers

ANY = RoutingRequest("m")


def test_the_first_candidate_is_taken_whatever_its_priority() -> None:
    a, b = workers(2)
    b.priority = 90
    policy = PassthroughPolicy()
    assert {policy.pick((a, b), ANY) for _ in range(5)} == {a}
    assert policy.pick((b,), ANY) is b
    assert policy.pick((), ANY) is None


def test_more_than_one_worker_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    policy = PassthroughPolicy()
    with caplog.at_level(logging.WARNING):
        policy.pick(workers(1), ANY)
        assert not caplog.records
        for _ in range(3):
            policy.pick(workers(2), ANY)
    assert len(caplog.records) == 1
