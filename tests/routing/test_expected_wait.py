"""The score that policies compare loads by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.fleet.worker import Worker
from smgproxy.routing.expected_wait import ExpectedWait
from tests.routing.fleet import draws, report, workers

WAIT = ExpectedWait()
CHANCE = draws(0.0)


def _score(worker: Worker, tokens: int = 0) -> float:
    scores = WAIT.scores((worker,), tokens)
    assert scores is not None
    return scores[0]


def test_the_score_is_work_over_throughput_plus_cache_pressure() -> None:
    (worker,) = workers(1)
    report(
        worker,
        num_waiting_uncached_tokens=3000,
        num_running_reqs=2,
        gen_throughput=500,
        token_usage=0.75,
    )
    worker.backlog.note_sent(100)
    expected = (3000 + 2 * 1024 + 100 + 50) / 500 + 0.15 * 3
    assert _score(worker, 50) == pytest.approx(expected)


def test_a_worker_that_tells_no_throughput_has_the_default() -> None:
    (worker,) = workers(1)
    report(worker)
    assert _score(worker) == pytest.approx(1024 / 2000)


def test_the_request_itself_counts_so_a_fast_worker_gets_its_share() -> None:
    fast, slow = fleet = workers(2)
    report(fast, gen_throughput=2000)
    report(slow, gen_throughput=100)
    picked = []
    for _ in range(21):
        worker = WAIT.lowest(fleet, 0, CHANCE)
        worker.backlog.note_sent(0)
        picked.append(worker)
    assert picked[:19] == [fast] * 19
    assert slow in picked[19:]


def test_what_was_sent_counts_until_the_next_report_not_until_it_ends() -> None:
    a, b = fleet = workers(2)
    report(a)
    report(b)
    for _ in range(10):
        worker = WAIT.lowest(fleet, 0, CHANCE)
        worker.backlog.note_sent(0)  # and it ends at once: load stays 0
    assert [a.backlog.sent, b.backlog.sent] == [5, 5]


def test_three_running_requests_are_about_three_dispatches() -> None:
    busy, idle = fleet = workers(2)
    report(busy, num_running_reqs=3)
    report(idle)
    for _ in range(3):
        assert WAIT.lowest(fleet, 0, CHANCE) is idle
        idle.backlog.note_sent(0)
    assert WAIT.scores(fleet, 0) == [2.048, 2.048]


def test_a_tie_goes_to_the_one_with_less_in_flight_and_running() -> None:
    a, b = fleet = workers(2)
    report(a, num_running_reqs=1)
    report(b, num_waiting_reqs=1)
    assert WAIT.scores(fleet, 0) == [1.024, 1.024]
    assert WAIT.lowest(fleet, 0, draws(0.0)) is b
    b.load = 2
    assert WAIT.lowest(fleet, 0, draws(0.99)) is a


def test_an_exact_tie_is_broken_by_chance() -> None:
    a, b, c = fleet = workers(3)
    for worker in fleet:
        report(worker)
    report(b, num_running_reqs=1)
    assert WAIT.lowest(fleet, 0, draws(0.0)) is a
    assert WAIT.lowest(fleet, 0, draws(0.99)) is c


def test_without_any_report_the_fewest_requests_in_flight_win() -> None:
    a, b, c = fleet = workers(3)
    a.load, b.load, c.load = 2, 1, 3
    assert WAIT.lowest(fleet, 0, CHANCE) is b


def test_who_did_not_report_counts_as_the_best_plus_its_own_requests() -> None:
    busy, good, silent = fleet = workers(3)
    report(busy, num_running_reqs=9)
    report(good, num_running_reqs=2)
    silent.load = 1
    scores = WAIT.scores(fleet, 0)
    assert scores is not None
    assert scores[2] == pytest.approx(scores[1] + 1024 / 2000)
    silent.load = 0
    assert WAIT.scores(fleet, 0) == [scores[0], scores[1], scores[1]]


@given(
    st.tuples(*[st.integers(0, 10**6)] * 3, st.floats(0, 1)),
    st.tuples(*[st.integers(0, 10**6)] * 3, st.floats(0, 1)),
    st.floats(1, 10**6),
)
def test_scores_grow_with_every_term(
    less: tuple[int, int, int, float],
    more: tuple[int, int, int, float],
    throughput: float,
) -> None:
    low, high = workers(2)
    terms = zip(low_and_high(less, more), (low, high))
    for (tokens, running, sent, usage), worker in terms:
        report(
            worker,
            num_waiting_uncached_tokens=tokens + 1,
            num_running_reqs=running,
            gen_throughput=throughput,
            token_usage=usage,
        )
        worker.backlog.note_sent(sent + 1)
    assert _score(low) <= _score(high)


def low_and_high(
    one: tuple[int, int, int, float], other: tuple[int, int, int, float]
) -> tuple[tuple[int, int, int, float], tuple[int, int, int, float]]:
    """The lower of each pair of terms, and the higher."""
    pairs = list(zip(one, other))
    low = [min(pair) for pair in pairs]
    high = [max(pair) for pair in pairs]
    return (
        (int(low[0]), int(low[1]), int(low[2]), low[3]),
        (int(high[0]), int(high[1]), int(high[2]), high[3]),
    )
