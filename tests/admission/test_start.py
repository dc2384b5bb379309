"""Which kind of admission the options make."""

from __future__ import annotations

import logging

import pytest

from smgproxy.admission.classes import SchedulerConfig
from smgproxy.admission.limiter import Limiter, RefillLimiter
from smgproxy.admission.line import FairLine
from smgproxy.admission.options import LimiterOptions, SchedulerOptions
from smgproxy.admission.scheduler import Scheduler
from smgproxy.admission.start import start_admission
from smgproxy.core.errors import SchedulerQueueFull
from tests.admission.asking import limits, submitted

PLAIN = SchedulerOptions()
ON = SchedulerOptions(priority_scheduler_enabled=True)


@pytest.mark.parametrize("limit", [-5, -1, 0])
def test_no_limit_means_no_admission_at_all(limit: int) -> None:
    assert start_admission(LimiterOptions(limit), PLAIN) is None


@pytest.mark.parametrize("rate", [None, 0])
def test_a_limit_makes_a_limiter(rate: int | None) -> None:
    options = LimiterOptions(5, rate_limit_tokens_per_second=rate)
    assert type(start_admission(options, PLAIN)) is Limiter


def test_a_rate_makes_it_one_with_refill() -> None:
    options = LimiterOptions(5, rate_limit_tokens_per_second=2)
    assert type(start_admission(options, PLAIN)) is RefillLimiter


@pytest.mark.parametrize(("limit", "capacity"), [(-1, 1024), (500, 500)])
def test_the_scheduler_starts_with_the_fallback_capacity(
    limit: int, capacity: int
) -> None:
    one = start_admission(LimiterOptions(limit), ON)
    assert isinstance(one, Scheduler)
    assert one.capacity == capacity


def test_reservations_above_it_fall_back_to_the_limiter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert type(start_admission(LimiterOptions(4), ON)) is Limiter
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == (
        "priority scheduler failed to start; falling back to "
        "--max-concurrent-requests: sum of class reservations (9) exceeds capacity (4)"
    )


def test_the_rate_is_a_gate_in_front_of_the_scheduler_if_there_is_a_limit() -> None:
    gated = start_admission(LimiterOptions(500, 100, 60, 1), ON)
    free = start_admission(LimiterOptions(-1, 100, 60, 1), ON)
    assert isinstance(gated, Scheduler) and isinstance(free, Scheduler)
    for _ in range(500):
        gated.release(submitted(gated), 0.0)
        free.release(submitted(free), 0.0)
    with pytest.raises(SchedulerQueueFull):
        submitted(gated)
    submitted(free)


def test_the_options_reach_the_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    config = SchedulerConfig((limits(),) * 4, {"auth:red": 0}, ("f:2: a notice",))
    one = start_admission(
        LimiterOptions(),
        SchedulerOptions(True, "system", config, 0, "tenant"),
    )
    assert isinstance(one, Scheduler)
    assert isinstance(one.lanes[0].line, FairLine)
    assert submitted(one, priority=b"system").lane.name == "system"
    assert submitted(one, priority=b"bad", tenant="auth:red").lane.name == "bulk"
    assert one.stats.unknown_priorities == {"other": 1}
    assert "--priority-scheduler-config: f:2: a notice" in caplog.messages
