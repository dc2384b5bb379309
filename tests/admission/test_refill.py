"""The limit with refill: one bucket that responses and time fill."""

from __future__ import annotations

import pytest

from smgproxy.admission.limiter import RefillLimiter
from smgproxy.core.errors import AdmissionQueueFull
from tests.admission.asking import Request, submitted


def test_a_burst_of_the_capacity_is_admitted_at_once() -> None:
    limiter = RefillLimiter(3, 9, 60, 1)
    assert [limiter.submit(Request(), 100.0) for _ in range(4)] == [True] * 3 + [False]


def test_time_admits_more_past_the_cap() -> None:
    limiter = RefillLimiter(2, 9, 60, 10)
    submitted(limiter, now=0.0), submitted(limiter, now=0.0)
    waiter = submitted(limiter, now=0.0)
    assert limiter.next_deadline() == pytest.approx(0.1)
    limiter.expire(limiter.next_deadline() or 0.0)
    assert (waiter.heard, limiter.in_flight) == (["grant"], 3)


def test_a_finished_response_gives_its_token_back() -> None:
    limiter = RefillLimiter(1, 9, 60, 1)
    holder, waiter = submitted(limiter, now=0.0), submitted(limiter, now=0.0)
    limiter.release(holder, 0.1)
    assert (waiter.heard, limiter.in_flight) == (["grant"], 1)


def test_the_bucket_never_holds_more_than_the_capacity() -> None:
    limiter = RefillLimiter(2, 9, 60, 100)
    for each in [submitted(limiter, now=0.0), submitted(limiter, now=0.0)]:
        limiter.release(each, 50.0)
    assert [limiter.submit(Request(), 50.0) for _ in range(3)] == [True, True, False]


def test_nobody_waits_longer_than_one_token_takes() -> None:
    limiter = RefillLimiter(1, 9, 60, 2)
    submitted(limiter, now=0.0)
    first, second = submitted(limiter, now=0.0), submitted(limiter, now=0.0)
    limiter.expire(0.5)
    assert (first.heard, second.heard) == (["grant"], ["admission_queue_timeout"])


def test_nor_longer_than_the_queue_timeout() -> None:
    limiter = RefillLimiter(1, 9, 0.25, 2)
    submitted(limiter, now=0.0)
    waiter = submitted(limiter, now=0.0)
    limiter.expire(0.25)
    assert waiter.heard == ["admission_queue_timeout"]


def test_a_full_queue_sheds_with_429() -> None:
    limiter = RefillLimiter(1, 0, 60, 2)
    submitted(limiter, now=0.0)
    with pytest.raises(AdmissionQueueFull):
        limiter.submit(Request(), 0.0)
    assert limiter.stats.rejected == 1


def test_a_waiter_that_leaves_takes_no_token() -> None:
    limiter = RefillLimiter(1, 9, 60, 2)
    submitted(limiter, now=0.0)
    gone = submitted(limiter, now=0.0)
    limiter.cancel(gone, 0.1)
    assert limiter.next_deadline() is None
    assert limiter.submit(Request(), 0.5)


def test_a_granted_request_may_release_from_inside_its_call() -> None:
    limiter = RefillLimiter(1, 9, 60, 1)
    holder, one, two = (submitted(limiter, now=0.0) for _ in range(3))
    one.then = lambda: limiter.release(one, 0.1)
    limiter.release(holder, 0.1)
    assert (one.heard, two.heard, limiter.in_flight) == (["grant"], ["grant"], 1)
