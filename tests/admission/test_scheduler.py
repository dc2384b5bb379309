"""The scheduler's slots and queues: who runs, in which order, what is kept free."""

from __future__ import annotations

import logging

import pytest

from smgproxy.admission.bucket import TokenBucket
from smgproxy.admission.classes import BUILT_IN, Ceilings, ReservationsTooLarge
from smgproxy.admission.scheduler import Scheduler
from smgproxy.admission.ticket import State
from smgproxy.core.errors import SchedulerQueueFull
from tests.admission.asking import Request, limits, submitted

SYSTEM = 3
FREE_FOR_ALL = (limits(), limits(), limits(), limits())


def scheduler(capacity: int, *classes: object, **more: object) -> Scheduler:
    """Every tenant may use every class."""
    chosen = classes or FREE_FOR_ALL
    more.setdefault("ceilings", Ceilings(SYSTEM))
    return Scheduler(capacity, chosen, **more)  # type: ignore[arg-type]


# -- classes -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (None, "default"),
        (b"system", "system"),
        (b"interactive", "interactive"),
        (b"default", "default"),
        (b"bulk", "bulk"),
        (b" InterActive ", "interactive"),
        (b"SYSTEM", "system"),
        (b"urgent", "default"),
        (b"", "default"),
        (b"\xff", "default"),
    ],
)
def test_the_header_chooses_the_class(header: bytes | None, name: str) -> None:
    one = scheduler(4)
    assert submitted(one, priority=header).lane.name == name


def test_an_unknown_priority_is_counted_by_tenant_an_empty_one_is_not() -> None:
    one = scheduler(4)
    for header in (b"urgent", b"", b"  ", None, b"bulk"):
        submitted(one, priority=header, tenant="auth:red")
    assert one.stats.unknown_priorities == {"auth:red": 1}


def test_a_class_above_the_ceiling_is_lowered_to_it_and_counted() -> None:
    one = scheduler(9, ceilings=Ceilings(1, {"auth:red": 2, "auth:blue": 0}))
    asked = [
        submitted(one, priority=header, tenant=tenant).lane.name
        for tenant, header in [
            ("auth:red", b"system"),
            ("auth:red", b"bulk"),
            ("auth:else", b"interactive"),
            ("auth:blue", None),
        ]
    ]
    assert asked == ["interactive", "bulk", "default", "bulk"]
    assert one.stats.clamps == {
        ("auth:red", "system", "interactive"): 1,
        ("auth:else", "interactive", "default"): 1,
        ("auth:blue", "default", "bulk"): 1,
    }


def test_tenants_beyond_the_bound_share_a_label() -> None:
    one = scheduler(9, max_tenant_labels=2)
    for name in ("a", "b", "c", "d", "a"):
        submitted(one, priority=b"?", tenant=name)
    assert one.stats.unknown_priorities == {"a": 2, "b": 1, "other": 2}


# -- arrival -------------------------------------------------------------------------


def test_a_free_slot_is_granted_at_once_and_without_a_call() -> None:
    one = scheduler(1)
    request = Request()
    assert one.submit(request, 0.0)
    assert (request.heard, one.in_flight) == ([], 1)


def test_each_class_has_a_queue_of_its_own() -> None:
    one = scheduler(1, limits(0, 1), limits(0, 0), limits(0, 1), limits(0, 1))
    submitted(one)
    assert not one.submit(Request(priority=b"bulk"), 0.0)
    assert not one.submit(Request(priority=b"system"), 0.0)
    with pytest.raises(SchedulerQueueFull):
        one.submit(Request(priority=b"default"), 0.0)
    with pytest.raises(SchedulerQueueFull):
        one.submit(Request(priority=b"bulk"), 0.0)
    assert [each.stats.rejected_queue_full for each in one.lanes] == [1, 1, 0, 0]


def test_a_newcomer_cannot_overtake_who_waits_in_its_class() -> None:
    one = scheduler(1)
    a, b, c = (submitted(one, name) for name in "abc")
    one.release(a, 1.0)
    d = submitted(one, "d", now=1.0)
    one.release(b, 2.0)
    assert (b.heard, c.heard, d.heard) == (["grant"], ["grant"], [])


def test_the_rate_gate_stands_before_everything_and_gives_nothing_back() -> None:
    one = scheduler(9, rate=TokenBucket(3, 1))
    for _ in range(3):
        one.release(submitted(one), 0.0)
    late = Request(priority=b"urgent")
    with pytest.raises(SchedulerQueueFull):
        one.submit(late, 0.5)
    assert one.submit(Request(), 1.0)
    assert one.stats.rate_rejected == 1
    assert late.state == State.SHED
    # It was no request of any class.
    assert one.stats.unknown_priorities == {}
    assert sum(each.stats.rejected_queue_full for each in one.lanes) == 0


# -- reservations --------------------------------------------------------------------


def test_a_reserved_slot_stays_free_for_its_class() -> None:
    one = scheduler(4, limits(), limits(), limits(2), limits())
    bulk = [submitted(one, priority=b"bulk") for _ in range(3)]
    assert [each.state for each in bulk] == [State.HELD, State.HELD, State.WAITING]
    assert all(one.submit(Request(priority=b"interactive"), 0.0) for _ in range(2))
    assert one.in_flight == 4


def test_neither_its_own_reservation_nor_a_lower_one_blocks_a_class() -> None:
    one = scheduler(4, limits(2), limits(), limits(2), limits())
    assert all(one.submit(Request(priority=b"interactive"), 0.0) for _ in range(4))


def test_a_reservation_in_use_is_not_kept_free_twice() -> None:
    one = scheduler(3, limits(), limits(), limits(2), limits())
    submitted(one, priority=b"interactive"), submitted(one, priority=b"interactive")
    assert one.submit(Request(priority=b"bulk"), 0.0)


def test_reservations_above_the_capacity_refuse_to_start() -> None:
    with pytest.raises(ReservationsTooLarge) as caught:
        Scheduler(4, BUILT_IN)
    assert str(caught.value) == "sum of class reservations (9) exceeds capacity (4)"


@pytest.mark.parametrize(
    ("capacity", "reserved"),
    [
        (1024, [0, 103, 256, 32]),
        (64, [0, 4, 39, 19]),
        (4, [0, 0, 1, 1]),
        (2, [0, 0, 0, 0]),
    ],
)
def test_later_they_are_scaled_to_a_smaller_fleet(
    capacity: int, reserved: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    one = Scheduler(1024, BUILT_IN)
    with caplog.at_level(logging.WARNING):
        one.set_capacity(capacity, 0.0)
    assert [each.reserved for each in one.lanes] == reserved
    assert bool(caplog.records) == (capacity < 1024)


def test_they_grow_back_with_the_fleet() -> None:
    one = Scheduler(1024, BUILT_IN)
    one.set_capacity(4, 0.0)
    one.set_capacity(1024, 0.0)
    assert [each.reserved for each in one.lanes] == [0, 103, 256, 32]


# -- the dispatcher ------------------------------------------------------------------


def test_a_freed_slot_goes_to_the_highest_class_and_its_oldest() -> None:
    one = scheduler(1)
    holder = submitted(one)
    arrived = "b1 b2 d1 i1 s1 i2".split()
    classes = {"b": b"bulk", "d": b"default", "i": b"interactive", "s": b"system"}
    waiting = {name: submitted(one, name, classes[name[0]]) for name in arrived}
    order = []
    while waiting:
        one.release(holder, 1.0)
        (name,) = (name for name, each in waiting.items() if each.heard)
        holder = waiting.pop(name)
        order.append(name)
    assert order == "s1 i1 i2 d1 b1 b2".split()


def test_more_capacity_lets_waiters_in_at_once() -> None:
    one = scheduler(1)
    submitted(one)
    waiting = [submitted(one) for _ in range(3)]
    one.set_capacity(3, 1.0)
    assert [each.heard for each in waiting] == [["grant"], ["grant"], []]


def test_less_capacity_cancels_nobody_and_drains() -> None:
    one = scheduler(3)
    running = [submitted(one) for _ in range(3)]
    waiter = submitted(one)
    one.set_capacity(1, 1.0)
    assert all(each.heard == [] for each in running)
    for each in running[:2]:
        one.release(each, 2.0)
    assert waiter.heard == []
    one.release(running[2], 2.0)
    assert waiter.heard == ["grant"]


def test_a_waiter_is_shed_when_its_classs_timeout_is_over() -> None:
    one = scheduler(1, limits(timeout=9), limits(), limits(timeout=5), limits())
    submitted(one)
    bulk = submitted(one, priority=b"bulk", now=0.0)
    quick = submitted(one, priority=b"interactive", now=1.0)
    assert one.next_deadline() == 6.0
    one.expire(6.0)
    assert (bulk.heard, quick.heard) == ([], ["scheduler_queue_timeout"])
    assert one.next_deadline() == 9.0
    assert one.lanes[2].stats.rejected_queue_timeout == 1


def test_a_waiter_that_leaves_frees_its_place_and_is_counted() -> None:
    one = scheduler(1, *(limits(0, 1),) * 4)
    submitted(one)
    waiter = submitted(one)
    one.cancel(waiter, 1.0)
    assert (waiter.heard, one.next_deadline()) == ([], None)
    assert not one.submit(Request(), 1.0)
    assert one.lanes[1].stats.client_cancelled == 1


def test_cancel_after_the_grant_of_the_same_tick_passes_the_slot_on() -> None:
    one = scheduler(1)
    a, b, c = (submitted(one, name) for name in "abc")
    one.release(a, 1.0)
    one.cancel(b, 1.0)
    assert (c.heard, one.in_flight) == (["grant"], 1)


# -- starvation ----------------------------------------------------------------------


def starving() -> tuple[Scheduler, list[Request]]:
    """Four slots, two of them kept for interactive; the third bulk waits."""
    bulk = limits(starvation=1)
    one = scheduler(4, bulk, limits(), limits(2), limits())
    return one, [submitted(one, priority=b"bulk") for _ in range(4)]


def test_who_starves_is_promoted_past_reservations_at_the_exact_moment() -> None:
    one, bulk = starving()
    assert one.next_deadline() == 1.0
    one.expire(0.999)
    assert bulk[2].heard == []
    one.expire(1.0)
    assert (bulk[2].heard, bulk[3].heard) == (["grant"], ["grant"])
    assert one.lanes[0].stats.promotions == 2


def test_a_promotion_needs_a_free_slot() -> None:
    one, bulk = starving()
    interactive = [submitted(one, priority=b"interactive") for _ in range(2)]
    one.expire(1.0)
    assert bulk[2].heard == []
    # It starves already: only a release can help, no moment can.
    assert one.next_deadline() == 60.0
    one.release(interactive[0], 1.5)
    assert bulk[2].heard == ["grant"]


def test_the_starved_go_before_higher_classes_the_lowest_first() -> None:
    quick, slow = limits(starvation=1), limits(starvation=1, timeout=99)
    one = scheduler(1, slow, quick, quick, limits())
    holder = submitted(one)
    waiting = [
        submitted(one, name.decode(), name, now=0.5)
        for name in (b"system", b"interactive", b"bulk")
    ]
    one.release(holder, 2.0)
    assert [str(each) for each in waiting if each.heard] == ["bulk"]


def test_a_deadline_that_passed_unseen_is_still_due() -> None:
    one, _ = starving()
    submitted(one, priority=b"bulk", now=5.0)  # the timer is late
    assert one.next_deadline() == 1.0


# -- figures -------------------------------------------------------------------------


class Waits:
    """A histogram that keeps what it is given."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def observe(self, value: float) -> None:
        self.seen.append(value)


def test_the_wait_of_those_that_queued_is_observed_by_class() -> None:
    waits = [Waits() for _ in range(4)]
    one = scheduler(1, waits=waits)
    holder = submitted(one, priority=b"bulk")
    submitted(one, now=1.0)
    one.release(holder, 3.5)
    assert [each.seen for each in waits] == [[], [2.5], [], []]


def test_the_gauges_of_each_class() -> None:
    one = scheduler(1, *(limits(0, 4),) * 4)
    submitted(one, priority=b"bulk"), submitted(one, priority=b"interactive")
    assert one.states() == [
        ("bulk", 1, 0, 4, 1.0),
        ("default", 0, 0, 4, 0.0),
        ("interactive", 0, 1, 4, 0.25),
        ("system", 0, 0, 4, 0.0),
    ]


def test_pressure_is_measured_against_what_the_reservations_above_leave() -> None:
    one = scheduler(8, limits(), limits(), limits(4), limits())
    submitted(one, priority=b"bulk")
    assert one.states()[0].pressure == 0.25
    one.set_capacity(4, 0.0)  # all of it reserved
    assert one.states()[0].pressure == 1.0


def test_a_granted_request_may_release_and_submit_from_inside_its_call() -> None:
    one = scheduler(1)
    a, b, c = (submitted(one, name) for name in "abc")
    d = Request("d")

    def then() -> None:
        one.release(b, 1.0)
        one.submit(d, 1.0)

    b.then = then
    one.release(a, 1.0)
    assert (b.heard, c.heard, d.heard) == (["grant"], ["grant"], [])
    assert one.in_flight == 1
