"""Preemption: who is a victim, who gets its slot, and when that takes too long."""

from __future__ import annotations

import pytest

from smgproxy.admission.classes import Ceilings
from smgproxy.admission.scheduler import PREEMPTION_BUDGET_SECS, Scheduler
from smgproxy.admission.ticket import State
from smgproxy.core.errors import SchedulerQueueFull, Shed
from tests.admission.asking import Request, limits, submitted

PREEMPTED = ["scheduler_preempted"]
LATE = PREEMPTION_BUDGET_SECS


def scheduler(capacity: int, queue_size: int = 10) -> Scheduler:
    """Interactive and system preempt; every tenant may use every class."""
    low, high = limits(0, 99), limits(0, queue_size, can_preempt=True)
    return Scheduler(capacity, (low, low, high, high), Ceilings(3))


def interactive(one: Scheduler, name: str = "i", now: float = 1.0) -> Request:
    return submitted(one, name, b"interactive", now)


def test_a_preemptor_waits_for_its_victim_and_gets_its_slot() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    high = interactive(one)
    assert (bulk.heard, bulk.state) == (PREEMPTED, State.PREEMPTED)
    assert (high.heard, one.in_flight) == ([], 1)
    one.release(bulk, 1.01)
    assert (high.heard, one.in_flight) == (["grant"], 1)


def test_victims_are_the_lowest_class_first_and_in_it_the_latest_admitted() -> None:
    one = scheduler(3)
    b1 = submitted(one, "b1", b"bulk")
    d1 = submitted(one, "d1")
    b2 = submitted(one, "b2", b"bulk")
    order = []
    for _ in range(3):
        interactive(one)
        (victim,) = (each for each in (b1, d1, b2) if each.heard and each not in order)
        order.append(victim)
    assert order == [b2, b1, d1]


def test_one_arrival_takes_one_victim_at_most() -> None:
    one = scheduler(2)
    bulk = [submitted(one, priority=b"bulk") for _ in range(2)]
    interactive(one)
    assert [each.heard for each in bulk] == [[], PREEMPTED]


def test_an_equal_or_higher_class_is_no_victim() -> None:
    one = scheduler(2)
    running = [interactive(one), submitted(one, priority=b"system")]
    assert interactive(one).state == State.WAITING
    assert all(each.heard == [] for each in running)


def test_a_class_that_may_not_preempt_queues() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    assert submitted(one).state == State.WAITING
    assert bulk.heard == []


def test_a_committed_request_is_no_victim() -> None:
    one = scheduler(2)
    early, late = (submitted(one, priority=b"bulk") for _ in range(2))
    assert late.commit()
    interactive(one)
    assert (early.heard, late.heard) == (PREEMPTED, [])
    assert interactive(one).state == State.WAITING
    assert late.heard == []


def test_a_preempted_request_cannot_commit_any_more() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    interactive(one)
    assert not bulk.commit()
    assert bulk.state == State.PREEMPTED


def test_a_promoted_request_may_be_a_victim() -> None:
    one = scheduler(1)
    holder = submitted(one)
    holder.commit()
    bulk = submitted(one, priority=b"bulk")
    one.release(holder, 31.0)  # past the starvation threshold
    assert one.lanes[0].stats.promotions == 1
    interactive(one, now=32.0)
    assert bulk.heard == ["grant", *PREEMPTED]


def test_the_victim_slot_is_the_preemptors_past_all_reservations() -> None:
    low, high = limits(), limits(can_preempt=True)
    one = Scheduler(2, (low, low, high, limits(1)), Ceilings(3))
    bulk = submitted(one, priority=b"bulk")
    first = interactive(one)
    second = submitted(one, "s", b"system", now=1.0)
    one.release(bulk, 1.01)
    assert (first.heard, second.state, one.in_flight) == (["grant"], State.HELD, 2)


def test_a_full_queue_does_not_stop_a_preemptor() -> None:
    one = scheduler(1, queue_size=0)
    bulk = submitted(one, priority=b"bulk")
    high = interactive(one)
    with pytest.raises(SchedulerQueueFull):
        interactive(one)  # no victim left
    one.release(bulk, 1.01)
    assert high.heard == ["grant"]


def test_the_slot_goes_to_the_oldest_of_the_preemptors_class() -> None:
    one = scheduler(2)
    b1, b2 = (submitted(one, priority=b"bulk") for _ in range(2))
    early = interactive(one, now=1.0)  # takes b2, which does not let go in time
    one.expire(1.0 + LATE)
    late = interactive(one, now=2.0)  # takes b1
    one.release(b1, 2.01)
    assert (early.heard, late.heard) == (["grant"], [])
    one.release(b2, 2.02)
    assert late.heard == ["grant"]


# -- the budget ---------------------------------------------------------------------


def test_the_budget_is_a_deadline() -> None:
    one = scheduler(1)
    submitted(one, priority=b"bulk")
    interactive(one, now=1.0)
    assert one.next_deadline() == 1.0 + LATE


def test_after_the_budget_the_preemptor_waits_like_others() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    high = interactive(one, now=1.0)
    one.expire(1.0 + LATE)
    assert (high.heard, bulk.heard, one.stats.late_handovers) == ([], PREEMPTED, 1)
    system = submitted(one, priority=b"system", now=1.1)
    one.release(bulk, 1.2)
    assert (system.heard, high.heard) == (["grant"], [])


def test_after_the_budget_a_full_queue_sheds_the_preemptor() -> None:
    one = scheduler(1, queue_size=0)
    bulk = submitted(one, priority=b"bulk")
    high = interactive(one, now=1.0)
    one.expire(1.0 + LATE)
    assert high.heard == ["scheduler_queue_full"]
    one.release(bulk, 1.2)
    assert one.in_flight == 0


def test_a_preemptor_that_leaves_lets_the_slot_go_to_anybody() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    other = submitted(one)
    high = interactive(one)
    one.cancel(high, 1.01)
    one.release(bulk, 1.02)
    assert (other.heard, high.heard) == (["grant"], [])


def test_a_preemptor_that_got_another_slot_lets_the_victims_go_to_anybody() -> None:
    one = scheduler(2)
    holder, bulk = submitted(one), submitted(one, priority=b"bulk")
    other = submitted(one)
    high = interactive(one)
    one.release(holder, 1.01)
    assert (high.heard, other.heard) == (["grant"], [])
    one.release(bulk, 1.02)
    assert other.heard == ["grant"]


def test_two_victims_that_leave_in_the_other_order_serve_both_preemptors() -> None:
    one = scheduler(2)
    b1, b2 = (submitted(one, priority=b"bulk") for _ in range(2))
    first, second = interactive(one, now=1.0), interactive(one, now=1.01)
    one.release(b1, 1.02)  # taken by the second, goes to the first
    assert (first.heard, second.heard) == (["grant"], [])
    first.commit()
    system = submitted(one, priority=b"system", now=1.02)  # finds no victim
    one.release(b2, 1.03)
    assert (second.heard, system.heard) == (["grant"], [])
    assert [each.claims for each in one.lanes] == [0, 0, 0, 0]


def test_a_preemption_is_counted_as_an_outcome_and_by_both_classes() -> None:
    one = scheduler(1)
    submitted(one, priority=b"bulk")
    interactive(one)
    assert one.stats.preemptions == {("bulk", "interactive"): 1}
    stats = one.lanes[0].stats
    assert (stats.admitted, stats.preempted) == (1, 1)


# -- callbacks that call back ---------------------------------------------------------


def test_a_victim_that_releases_at_once_hands_over_inside_the_submit() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    bulk.then = lambda: one.release(bulk, 1.0)
    high = Request(priority=b"interactive")
    assert one.submit(high, 1.0)
    assert (high.heard, one.in_flight) == ([], 1)


def test_a_request_granted_but_not_yet_told_may_be_preempted() -> None:
    one = scheduler(2)
    one_holder, two_holder = submitted(one), submitted(one)
    first, second = (submitted(one, priority=b"bulk") for _ in range(2))
    high = Request(priority=b"interactive")
    first.then = lambda: one.submit(high, 1.0)
    one_holder.commit(), two_holder.commit()
    one.set_capacity(4, 1.0)  # grants both; the first's call preempts the second
    assert (first.heard, second.heard) == (["grant"], PREEMPTED)
    one.release(second, 1.01)
    assert high.heard == ["grant"]


def test_a_preemptor_shed_from_inside_its_own_submit_is_told_by_it() -> None:
    one = scheduler(1, queue_size=0)
    bulk = submitted(one, priority=b"bulk")
    bulk.then = lambda: one.expire(2.0)
    high = Request(priority=b"interactive")
    with pytest.raises(Shed):
        one.submit(high, 1.0)
    assert high.heard == []


def test_a_preemptor_preempted_inside_its_own_submit_gives_its_slot_on() -> None:
    one = scheduler(1)
    bulk = submitted(one, priority=b"bulk")
    system = Request(priority=b"system")

    def then() -> None:
        one.release(bulk, 1.0)  # high has it
        one.submit(system, 1.0)  # takes it

    bulk.then = then
    high = Request(priority=b"interactive")
    with pytest.raises(Shed) as caught:
        one.submit(high, 1.0)
    assert caught.value.code == "scheduler_preempted"
    assert (high.heard, system.heard, one.in_flight) == ([], ["grant"], 1)
