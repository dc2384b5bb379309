"""What an attempt's outcome says about its worker, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from smgproxy.core.errors import (
    BodyAborted,
    ConnectFailed,
    GatewayError,
    NoAvailableWorkers,
    OverloadShed,
    ReplyBroken,
    SendFailed,
    UploadTimeout,
    UpstreamTimeout,
)
from smgproxy.dispatch.answers import Answers
from smgproxy.dispatch.options import DispatchOptions
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.fleet.breaker import BreakerState
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.telemetry.stats import RouterStats


class Scene:
    """A ready worker, and one request's attempts at it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.answers = Answers(DispatchOptions(), RouterStats(), loop)
        self.attempts = Attempts(RetryOptions())
        self.worker = Worker("id", "http://w:1")
        self.worker.state = WorkerState.READY

    def answered(self, *statuses: int) -> None:
        for status in statuses:
            self.answers.note_answer(self.worker, status, self.attempts)

    def failed(self, *errors: GatewayError) -> None:
        for error in errors:
            self.answers.note_failure(self.worker, error, self.attempts)

    def another_request(self) -> None:
        self.attempts = Attempts(RetryOptions())

    @property
    def counted(self) -> tuple[int, int]:
        """The outcomes that the breaker counted: failures and successes."""
        return self.worker.breaker.failures, self.worker.breaker.successes


@pytest.fixture
def it() -> Iterator[Scene]:
    loop = asyncio.new_event_loop()
    yield Scene(loop)
    loop.close()


def test_failed_sends_say_nothing_about_health(it: Scene) -> None:
    """Only probes do; a breaker is for the rest."""
    for _ in range(20):
        it.failed(ConnectFailed("refused"), SendFailed("reset"))
        it.another_request()
    assert it.worker.state is WorkerState.READY
    assert it.worker.breaker.state is BreakerState.OPEN


def test_all_attempts_of_one_request_are_one_failure(it: Scene) -> None:
    it.answered(503, 503)
    it.failed(SendFailed("reset"), UpstreamTimeout("slow"))
    it.answered(500)
    assert it.counted == (1, 0)
    it.another_request()
    it.answered(503)
    assert it.counted == (2, 0)


def test_errors_of_a_worker_are_counted_for_each_attempt(it: Scene) -> None:
    it.answered(503, 504, 500, 429, 404)
    it.failed(SendFailed("reset"), UpstreamTimeout("slow"))
    assert (it.worker.backend_errors, it.worker.timeouts) == (3, 2)


def test_a_stream_that_breaks_is_a_success_and_then_a_failure(it: Scene) -> None:
    it.answered(200)
    it.failed(ReplyBroken("cut"))
    assert it.counted == (1, 1)


def test_a_429_is_neither_and_a_400_is_a_success(it: Scene) -> None:
    it.answered(503)
    it.another_request()
    it.answered(429)
    assert it.worker.breaker.failure_streak == 1
    it.answered(400)
    assert (it.worker.breaker.failure_streak, it.counted) == (0, (1, 1))


@pytest.mark.parametrize(
    "error",
    [
        NoAvailableWorkers(),
        OverloadShed("too much", 10, "selection"),
        BodyAborted(),
        UploadTimeout("the client's"),
    ],
)
def test_what_was_not_the_workers_fault_is_not_charged(
    it: Scene, error: GatewayError
) -> None:
    it.failed(error)
    assert it.counted == (0, 0)
    assert (it.worker.backend_errors, it.worker.timeouts) == (0, 0)
