"""The concurrency limit: who is admitted, who waits, who is turned away, and how."""

from __future__ import annotations

import pytest

from smgproxy.admission.limiter import Limiter
from smgproxy.admission.ticket import State
from smgproxy.core.errors import AdmissionQueueFull
from tests.admission.asking import Request, submitted


def test_a_free_permit_is_granted_at_once_and_without_a_call() -> None:
    limiter = Limiter(1, 1, 60)
    request = Request()
    assert limiter.submit(request, 0.0)
    assert (request.heard, limiter.in_flight, limiter.depth) == ([], 1, 0)


def test_without_a_free_permit_a_request_waits() -> None:
    limiter = Limiter(1, 1, 60)
    submitted(limiter)
    assert not limiter.submit(Request(), 0.0)
    assert (limiter.in_flight, limiter.depth) == (1, 1)


def test_a_full_queue_sheds_with_429() -> None:
    limiter = Limiter(1, 1, 60)
    submitted(limiter), submitted(limiter)
    late = Request()
    with pytest.raises(AdmissionQueueFull) as caught:
        limiter.submit(late, 0.0)
    assert caught.value.message == "admission queue is at capacity"
    assert (late.state, late.heard) == (State.SHED, [])
    assert limiter.stats.turned_away == 1


def test_queue_size_0_sheds_at_once_and_says_so() -> None:
    limiter = Limiter(1, 0, 0)
    submitted(limiter)
    with pytest.raises(AdmissionQueueFull) as caught:
        limiter.submit(Request(), 0.0)
    assert caught.value.message == "concurrency limit reached and queuing is disabled"
    # Not a rejection of the queue's, for there is none; a rejection all the same.
    stats = limiter.stats
    assert (stats.turned_away, stats.rejected) == (0, 1)


def test_a_released_permit_goes_to_the_oldest_waiter_in_the_same_call() -> None:
    limiter = Limiter(1, 9, 60)
    a, b, c = (submitted(limiter, name) for name in "abc")
    limiter.release(a, 1.0)
    assert (b.heard, c.heard, limiter.in_flight) == (["grant"], [], 1)


def test_a_newcomer_cannot_overtake_who_waits() -> None:
    limiter = Limiter(1, 9, 60)
    a, b, c = (submitted(limiter, name) for name in "abc")
    limiter.release(a, 1.0)
    d = submitted(limiter, "d", now=1.0)
    limiter.release(b, 2.0)
    assert (c.heard, d.heard) == (["grant"], [])


def test_the_timeout_counts_from_the_entry_to_the_queue() -> None:
    limiter = Limiter(1, 9, 2)
    submitted(limiter, now=0.0)
    waiter = submitted(limiter, now=10.0)
    assert limiter.next_deadline() == 12.0
    limiter.expire(11.999)
    assert waiter.heard == []
    limiter.expire(12.0)
    assert waiter.heard == ["admission_queue_timeout"]
    assert (limiter.depth, limiter.in_flight) == (0, 1)


def test_only_those_whose_time_is_up_are_shed() -> None:
    limiter = Limiter(1, 9, 2)
    submitted(limiter)
    early, late = submitted(limiter, now=0.0), submitted(limiter, now=1.0)
    limiter.expire(2.5)
    assert (early.heard, late.heard) == (["admission_queue_timeout"], [])
    assert limiter.next_deadline() == 3.0


def test_without_waiters_there_is_no_deadline() -> None:
    limiter = Limiter(1, 9, 2)
    submitted(limiter)
    assert limiter.next_deadline() is None


def test_a_waiter_that_leaves_frees_its_place_and_is_counted_nowhere() -> None:
    limiter = Limiter(1, 1, 60)
    submitted(limiter)
    waiter = submitted(limiter)
    limiter.cancel(waiter, 1.0)
    assert (limiter.depth, waiter.heard) == (0, [])
    assert (limiter.stats.allowed, limiter.stats.rejected) == (1, 0)
    assert not limiter.submit(Request(), 1.0)


def test_cancel_gives_a_held_permit_to_the_next() -> None:
    limiter = Limiter(1, 9, 60)
    holder, waiter = submitted(limiter), submitted(limiter)
    limiter.cancel(holder, 1.0)
    assert waiter.heard == ["grant"]


def test_cancel_after_the_grant_of_the_same_tick_passes_the_permit_on() -> None:
    limiter = Limiter(1, 9, 60)
    a, b, c = (submitted(limiter, name) for name in "abc")
    limiter.release(a, 1.0)
    limiter.cancel(b, 1.0)  # granted, and its client left before it woke up
    assert c.heard == ["grant"]


@pytest.mark.parametrize("state", [State.FRESH, State.SHED, State.ENDED])
def test_cancel_of_what_holds_and_waits_for_nothing_changes_nothing(state: int) -> None:
    limiter = Limiter(1, 1, 60)
    request = Request()
    request.state = state
    limiter.cancel(request, 0.0)
    assert (limiter.in_flight, limiter.depth) == (0, 0)


def test_a_permit_cannot_be_released_twice() -> None:
    limiter = Limiter(2, 1, 60)
    request = submitted(limiter)
    limiter.release(request, 0.0)
    with pytest.raises(AssertionError):
        limiter.release(request, 0.0)


def test_a_committed_request_releases_like_any_other() -> None:
    limiter = Limiter(1, 1, 60)
    request = submitted(limiter)
    assert request.commit()
    limiter.release(request, 1.0)
    assert limiter.in_flight == 0


def test_decisions_are_counted_when_they_fall() -> None:
    limiter = Limiter(1, 1, 5)
    holder, _ = submitted(limiter), submitted(limiter)
    assert limiter.stats.allowed == 1  # the waiter is no decision yet
    with pytest.raises(AdmissionQueueFull):
        limiter.submit(Request(), 0.0)
    limiter.expire(5.0)
    limiter.release(holder, 6.0)
    stats = limiter.stats
    assert (stats.allowed, stats.rejected) == (1, 2)
    assert (stats.turned_away, stats.timed_out) == (1, 1)


# -- callbacks that call back ---------------------------------------------------------


def test_a_granted_request_may_release_from_inside_its_call() -> None:
    limiter = Limiter(1, 9, 60)
    a, b, c = (submitted(limiter, name) for name in "abc")
    b.then = lambda: limiter.release(b, 1.0)
    limiter.release(a, 1.0)
    assert (b.heard, c.heard, limiter.in_flight) == (["grant"], ["grant"], 1)


def test_a_granted_request_may_submit_another_from_inside_its_call() -> None:
    limiter = Limiter(1, 9, 60)
    a, b, c = (submitted(limiter, name) for name in "abc")
    d = Request("d")
    b.then = lambda: limiter.submit(d, 1.0)
    limiter.release(a, 1.0)
    limiter.release(b, 2.0)
    assert (c.heard, d.heard) == (["grant"], [])


def test_a_shed_request_may_cancel_its_neighbour_before_it_is_told() -> None:
    limiter = Limiter(1, 9, 2)
    submitted(limiter)
    one, two = submitted(limiter), submitted(limiter)
    one.then = lambda: limiter.cancel(two, 2.0)
    limiter.expire(2.0)
    assert (one.heard, two.heard) == (["admission_queue_timeout"], [])


def test_a_chain_of_ten_thousand_releases_does_not_deepen_the_stack() -> None:
    limiter = Limiter(1, 10_000, 60)
    first = submitted(limiter)
    waiters = [submitted(limiter) for _ in range(10_000)]
    for each in waiters:
        each.then = lambda each=each: limiter.release(each, 1.0)
    limiter.release(first, 1.0)
    assert all(each.heard == ["grant"] for each in waiters)
    assert (limiter.in_flight, limiter.depth) == (0, 0)
