"""The circuit breaker of one worker, told the time by hand."""

from __future__ import annotations

import pytest

from smgproxy.fleet.breaker import (
    TRANSITIONS,
    BreakerOptions,
    BreakerSettings,
    BreakerState,
    CircuitBreaker,
)
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState

CLOSED, OPEN, HALF_OPEN = BreakerState
SETTINGS = BreakerSettings(failure_threshold=3, success_threshold=2, timeout_secs=60)


@pytest.fixture
def breaker() -> CircuitBreaker:
    return CircuitBreaker(SETTINGS)


def _open(breaker: CircuitBreaker, now: float = 0) -> None:
    for _ in range(3):
        breaker.note_failure(now)
    assert breaker.state is OPEN


def _half_open(breaker: CircuitBreaker) -> None:
    _open(breaker)
    assert breaker.admits(60)
    assert breaker.state is HALF_OPEN


def test_failures_in_a_row_open_it(breaker: CircuitBreaker) -> None:
    breaker.note_failure(0)
    breaker.note_failure(0)
    assert breaker.admits(0)
    breaker.note_failure(0)
    assert not breaker.admits(0)


def test_a_success_begins_the_count_anew(breaker: CircuitBreaker) -> None:
    for _ in range(5):
        breaker.note_failure(0)
        breaker.note_failure(0)
        breaker.note_success()
    assert breaker.state is CLOSED


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 422, 499, 501, 520])
def test_any_other_answer_resets_the_streak(
    breaker: CircuitBreaker, status: int
) -> None:
    breaker.note_status(500, 0)
    breaker.note_status(status, 0)
    assert (breaker.failure_streak, breaker.failures, breaker.successes) == (0, 1, 1)


@pytest.mark.parametrize("status", [408, 500, 502, 503, 504])
def test_these_answers_are_failures(breaker: CircuitBreaker, status: int) -> None:
    breaker.note_status(status, 0)
    assert breaker.failure_streak == 1


def test_429_leaves_both_streaks_alone(breaker: CircuitBreaker) -> None:
    breaker.note_status(500, 0)
    breaker.note_status(429, 0)
    assert breaker.failure_streak == 1
    _half_open(breaker)
    breaker.note_status(200, 0)
    breaker.note_status(429, 0)
    assert (breaker.state, breaker.success_streak) == (HALF_OPEN, 1)


def test_a_worker_may_name_its_capacity_codes() -> None:
    settings = BreakerSettings(capacity_status_codes=frozenset((429, 503)))
    breaker = CircuitBreaker(settings)
    for _ in range(3):
        breaker.note_status(503, 0)
    assert (breaker.failures, breaker.successes) == (0, 0)


def test_it_stays_open_while_nobody_asks(breaker: CircuitBreaker) -> None:
    _open(breaker)
    breaker.note_success()
    assert breaker.state is OPEN
    assert not breaker.admits(59.9)
    assert breaker.state is OPEN
    assert breaker.admits(1000)
    assert breaker.state is HALF_OPEN


def test_half_open_admits_everybody(breaker: CircuitBreaker) -> None:
    _half_open(breaker)
    assert all(breaker.admits(60) for _ in range(100))


def test_successes_in_a_row_close_it(breaker: CircuitBreaker) -> None:
    _half_open(breaker)
    breaker.note_success()
    assert breaker.state is HALF_OPEN
    breaker.note_success()
    assert breaker.state is CLOSED
    assert (breaker.failure_streak, breaker.success_streak) == (0, 0)


def test_one_failure_on_trial_opens_it_for_a_whole_timeout(
    breaker: CircuitBreaker,
) -> None:
    _half_open(breaker)
    breaker.note_success()
    breaker.note_failure(61)
    assert (breaker.state, breaker.failure_streak) == (OPEN, 1)
    assert not breaker.admits(120.9)
    assert breaker.admits(121)


def test_answers_from_before_are_no_part_of_the_trial(breaker: CircuitBreaker) -> None:
    _open(breaker)
    breaker.note_success()
    breaker.note_success()
    assert breaker.admits(60)
    breaker.note_success()
    assert breaker.state is HALF_OPEN


def test_health_that_returns_ends_the_wait(breaker: CircuitBreaker) -> None:
    breaker.note_health_returned()
    assert (breaker.state, breaker.readmissions) == (CLOSED, 0)
    _open(breaker)
    breaker.note_health_returned()
    assert (breaker.state, breaker.readmissions) == (HALF_OPEN, 1)


def test_every_legal_transition_is_counted_from_zero(breaker: CircuitBreaker) -> None:
    assert breaker.transitions == dict.fromkeys(TRANSITIONS, 0)
    assert len(TRANSITIONS) == 5
    _half_open(breaker)
    breaker.note_failure(60)
    breaker.admits(120)
    breaker.note_success()
    breaker.note_success()
    counts = [breaker.transitions[each] for each in TRANSITIONS]
    assert counts == [1, 2, 1, 1, 0]


def test_each_transition_is_told(breaker: CircuitBreaker) -> None:
    seen: list[BreakerState] = []
    breaker.on_change = lambda: seen.append(breaker.state)
    _half_open(breaker)
    breaker.note_failure(60)
    assert seen == [OPEN, HALF_OPEN, OPEN]


def test_disabled_it_counts_and_never_opens() -> None:
    options = BreakerOptions(disable_circuit_breaker=True)
    breaker = CircuitBreaker(options.settings())
    for _ in range(1000):
        breaker.note_failure(0)
    assert (breaker.state, breaker.failures) == (CLOSED, 1000)


def test_the_flags_are_the_settings() -> None:
    assert BreakerOptions().settings() == BreakerSettings()


def test_a_transition_is_a_change_of_the_fleet() -> None:
    registry, worker = Registry(), Worker("a", "http://a:1")
    registry.add(worker)
    told: list[BreakerState] = []
    registry.watch(lambda: told.append(worker.breaker.state))
    worker.breaker.settings = SETTINGS
    _open(worker.breaker)
    assert told == [OPEN]


def test_a_worker_whose_probes_succeed_again_is_on_trial() -> None:
    registry, worker = Registry(), Worker("a", "http://a:1")
    worker.breaker.settings = SETTINGS
    registry.add(worker)
    registry.set_state(worker, WorkerState.READY)
    _open(worker.breaker)
    registry.set_state(worker, WorkerState.NOT_READY)
    assert worker.breaker.state is OPEN
    registry.set_state(worker, WorkerState.READY)
    assert worker.breaker.state is HALF_OPEN
