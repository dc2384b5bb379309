"""Which attempts are made again, after how long, and where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.errors import (
    ConnectFailed,
    FirstByteTimeout,
    GatewayError,
    ModelNotFound,
    NoAvailableWorkers,
    ReplyCutShort,
    ReplyMalformed,
    ReplyTooLarge,
    SendFailed,
    UpstreamTimeout,
)
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.fleet.worker import Worker

A, B, C = (Worker(name, f"http://{name}:1") for name in "abc")
FLEET = {A, B, C}


def _attempts(options: RetryOptions = RetryOptions()) -> Attempts:
    attempts = Attempts(options)
    attempts.made += 1
    return attempts


def _answered(attempts: Attempts, worker: Worker, status: int) -> bool:
    return attempts.retries_answer(
        worker, status, lambda fleet, now: bool(fleet - now.excluded), FLEET
    )


def _failed(attempts: Attempts, worker: Worker | None, error: GatewayError) -> bool:
    return attempts.retries_error(
        error, worker, lambda fleet, now: bool(fleet - now.excluded), FLEET
    )


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_five_retries_means_five_attempts_in_total(status: int) -> None:
    attempts = _attempts()
    while _answered(attempts, A, status):
        attempts.made += 1
    assert (attempts.made, attempts.is_exhausted) == (5, True)


@pytest.mark.parametrize(
    "status", [200, 302, 400, 401, 404, 409, 413, 422, 425, 499, 501, 520, 529]
)
def test_any_other_answer_is_relayed(status: int) -> None:
    attempts = _attempts()
    assert not _answered(attempts, A, status)
    assert not attempts.is_exhausted


def test_500_is_asked_once_of_each_worker() -> None:
    attempts = _attempts()
    assert _answered(attempts, A, 500)
    assert _answered(attempts, B, 500)
    assert not _answered(attempts, C, 500)
    assert attempts.excluded == FLEET
    assert not attempts.is_exhausted


def test_503_excludes_nobody() -> None:
    attempts = _attempts()
    assert _answered(attempts, A, 503)
    assert not attempts.excluded


def test_a_worker_that_answered_500_stays_excluded() -> None:
    attempts = _attempts()
    answers = [(B, 500), (A, 500), (C, 503), (C, 503), (C, 503)]
    kept = []
    for worker, status in answers:
        kept.append(_answered(attempts, worker, status))
        attempts.made += 1
    assert kept == [True, True, True, True, False]
    assert attempts.excluded == {A, B}


@pytest.mark.parametrize(
    "error",
    [
        ConnectFailed("x"),
        SendFailed("x"),
        ReplyCutShort("x"),
        ReplyMalformed("x"),
        ReplyTooLarge("x"),
        UpstreamTimeout("x"),
    ],
)
def test_errors_met_at_a_worker_are_retried_whatever_their_status(
    error: GatewayError,
) -> None:
    attempts = _attempts()
    while _failed(attempts, A, error):
        attempts.made += 1
    assert (attempts.made, attempts.is_exhausted) == (5, True)


@pytest.mark.parametrize("error", [NoAvailableWorkers(), ModelNotFound("m")])
def test_refusals_of_the_gateway_are_answered_at_once(error: GatewayError) -> None:
    attempts = _attempts()
    assert not _failed(attempts, None, error)
    assert not attempts.is_exhausted


def test_without_retries_a_retryable_failure_still_counts_as_exhausted() -> None:
    for attempts in (
        _attempts(RetryOptions(disable_retries=True)),
        _attempts(RetryOptions(1)),
    ):
        assert not _answered(attempts, A, 503)
        assert attempts.is_exhausted


def test_a_breaker_is_charged_once_a_request_and_worker() -> None:
    attempts = _attempts()
    assert [attempts.charges(one) for one in (A, A, B, A)] == [True, False, True, False]


def test_pauses_grow_up_to_the_limit() -> None:
    options = RetryOptions(5, 100, 250, 3.0, 0.0)
    pauses = [options.backoff_secs(retry, 0.9) for retry in (1, 2, 3, 4)]
    assert pauses == [0.1, 0.25, 0.25, 0.25]


@given(st.integers(1, 4), st.floats(0, 1, exclude_max=True))
def test_the_default_pauses_lie_where_the_contract_has_them(
    retry: int, draw: float
) -> None:
    low, high = [(40, 60), (60, 90), (90, 135), (135, 202.5)][retry - 1]
    assert low <= 1000 * RetryOptions().backoff_secs(retry, draw) <= high


def test_the_limit_holds_before_the_jitter() -> None:
    options = RetryOptions(9, 1000, 1000, 2.0, 0.5)
    assert options.backoff_secs(5, 0.0) == 0.5
    assert options.backoff_secs(5, 0.75) == 1.25


def test_no_multiplier_is_too_large() -> None:
    assert RetryOptions(99, 1, 7000, 1e300, 0.0).backoff_secs(98, 0) == 7.0
    assert RetryOptions(99, 0, 0, 1e300, 0.0).backoff_secs(98, 0) == 0


def test_a_pause_follows_the_attempts_made() -> None:
    attempts = _attempts(RetryOptions(5, 100, 30000, 2.0, 0.0))
    assert attempts.backoff_secs(0) == 0.1
    attempts.made += 1
    assert attempts.backoff_secs(0) == 0.2


def test_the_longest_pause_is_not_below_the_first() -> None:
    with pytest.raises(ValueError, match="--retry-max-backoff-ms: must be at least"):
        RetryOptions(retry_initial_backoff_ms=10, retry_max_backoff_ms=9)


def test_who_sent_nothing_in_time_is_not_asked_again() -> None:
    attempts = _attempts()
    for left, worker in ((True, A), (True, B), (False, C)):
        assert _failed(attempts, worker, FirstByteTimeout(worker.url, 1)) is left
        attempts.made += 1
    assert attempts.excluded == FLEET
    assert not attempts.is_exhausted
