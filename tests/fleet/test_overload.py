"""Which workers have too much to do, by what they report."""

from __future__ import annotations

import pytest

from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.load_report import from_loads
from smgproxy.fleet.overload import OverloadLimits, OverloadOptions, parse_share
from smgproxy.fleet.worker import Worker

LIMITS = OverloadLimits()


def _is_over(entries: bytes, limits: OverloadLimits = LIMITS) -> bool:
    report = from_loads(b'{"loads":[' + entries + b"]}")
    assert report is not None
    return limits.is_passed(report)


@pytest.mark.parametrize(
    "entry, is_over",
    [
        (b'{"num_waiting_reqs":7,"token_usage":0.79}', False),
        (b'{"num_waiting_reqs":8}', True),
        (b'{"token_usage":0.8}', True),
        (b'{"num_running_reqs":500}', False),
    ],
)
def test_a_limit_is_passed_when_it_is_reached(entry: bytes, is_over: bool) -> None:
    assert _is_over(entry) is is_over


def test_waiting_is_summed_over_ranks_and_usage_averaged() -> None:
    assert _is_over(b'{"num_waiting_reqs":4},{"num_waiting_reqs":4}')
    assert not _is_over(b'{"token_usage":1.0},{"token_usage":0.5}')
    assert not LIMITS.is_passed({"loads": []})


def test_by_default_workers_are_avoided_and_nothing_is_shed() -> None:
    options = OverloadOptions()
    assert (options.limits, options.is_asked_for) == (OverloadLimits(8, 0.8), False)


@pytest.mark.parametrize(
    "options",
    [
        OverloadOptions(worker_overload_waiting_requests=8),
        OverloadOptions(worker_overload_token_usage=0.8),
        OverloadOptions(worker_overload_protection=True),
        OverloadOptions(worker_overload_shed=True),
    ],
)
def test_any_flag_asks_for_shedding(options: OverloadOptions) -> None:
    assert (options.limits, options.is_asked_for) == (OverloadLimits(8, 0.8), True)


def test_protection_can_be_turned_off() -> None:
    assert OverloadOptions(disable_worker_overload_protection=True).limits is None


def test_a_share_is_above_0_and_at_most_1() -> None:
    assert parse_share("1.0") == 1.0
    for bad in ("0", "1.1", "nan", "x", "-1"):
        with pytest.raises(ValueError, match="such as 0.8"):
            parse_share(bad)


def test_a_worker_that_is_described_anew_has_the_new_limits() -> None:
    worker, candidate = (Worker("id", "http://a:1") for _ in range(2))
    candidate.overload = OverloadLimits(2, 0.5)
    candidate.breaker.settings = BreakerSettings(failure_threshold=1)
    worker.breaker.note_failure(0)
    worker.take_over(candidate)
    assert worker.overload == OverloadLimits(2, 0.5)
    assert worker.breaker.settings.failure_threshold == 1
    assert worker.breaker.failures == 1  # its past is its own
