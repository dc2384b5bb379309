"""least_load: the lowest expected wait, with an optional limit."""

from __future__ import annotations

from smgproxy.routing.policies.least_load import LeastLoadPolicy
from smgproxy.routing.request import RoutingRequest
from tests.routing.fleet import draws, report, tokens, workers

ANY = RoutingRequest("m")


def test_the_lowest_wait_wins() -> None:
    a, b = workers(2)
    report(a, num_running_reqs=1)
    report(b)
    assert LeastLoadPolicy().pick((a, b), ANY) is b
    assert LeastLoadPolicy().pick((), ANY) is None


def test_the_length_of_a_prompt_in_tokens_counts_where_it_is_known() -> None:
    fast, slow = fleet = workers(2)
    report(fast, num_waiting_uncached_tokens=2000, gen_throughput=2000)
    report(slow, gen_throughput=1000)
    policy = LeastLoadPolicy()
    assert policy.pick(fleet, tokens(*range(10))) is slow
    assert policy.pick(fleet, tokens(*range(4000))) is fast


def test_a_limit_skips_workers_by_what_waits_and_what_was_sent() -> None:
    a, b = fleet = workers(2)
    report(a, num_waiting_reqs=2)
    report(b, num_waiting_reqs=3)
    policy = LeastLoadPolicy(most_waiting=3)
    assert policy.pick(fleet, ANY) is a
    a.backlog.note_sent(0)
    assert policy.pick(fleet, ANY) is None
    report(a, num_waiting_reqs=2)
    assert policy.pick(fleet, ANY) is a


def test_the_limit_leaves_workers_without_a_report_alone() -> None:
    (a,) = fleet = workers(1)
    for _ in range(9):
        a.backlog.note_sent(0)
    assert LeastLoadPolicy(most_waiting=3, draw=draws(0.0)).pick(fleet, ANY) is a
