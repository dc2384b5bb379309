"""The scheduler, in any order of verbs: what it promises holds at every moment."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from smgproxy.admission.classes import Ceilings
from smgproxy.admission.lane import Lane
from smgproxy.admission.scheduler import Scheduler
from smgproxy.admission.ticket import State, Ticket
from smgproxy.core.errors import SchedulerQueueFull, Shed
from tests.admission.asking import Request, limits

CLASSES = (
    limits(0, 3, timeout=9, starvation=4),
    limits(1, 3, timeout=6, starvation=3),
    limits(2, 2, timeout=4, starvation=2, can_preempt=True),
    limits(1, 1, timeout=3, starvation=3, can_preempt=True),
)
NAMES = (b"bulk", b"default", b"interactive", b"system")
PICKS = st.integers(0, 2**16)
REACTIONS = st.lists(
    st.sampled_from(["", "", "release", "submit", "cancel another", "expire"]),
    max_size=12,
)


class Watched(Scheduler):
    """Checks each admission and preemption against the rules, counted anew."""

    def __init__(self, is_fair: bool) -> None:
        self.order: list[Ticket] = []  # as admitted
        self.is_handing_over = False
        self.promotions = 0
        super().__init__(6, CLASSES, Ceilings(3), is_fair=is_fair)

    def _admit(self, lane: Lane, ticket: Ticket) -> None:
        promotions = sum(each.stats.promotions for each in self.lanes)
        is_promoted = promotions != self.promotions
        self.promotions = promotions
        free = self.capacity - self.in_flight
        if not self.is_handing_over:
            assert free > 0
        if not self.is_handing_over and not is_promoted:
            rank = self.lanes.index(lane)
            idle = [max(0, one.reserved - one.in_flight) for one in self.lanes]
            assert free - sum(idle[rank + 1 :]) >= 1, "a reservation was broken"
        self.order.append(ticket)
        super()._admit(lane, ticket)

    def _hand_over(self, victim: Ticket, now: float) -> None:
        self.is_handing_over = True
        super()._hand_over(victim, now)
        self.is_handing_over = False

    def _preempt(self, victim: Ticket, by: Ticket, now: float) -> None:
        ranks = {id(lane): rank for rank, lane in enumerate(self.lanes)}
        eligible = [
            (-ranks[id(one.lane)], number)
            for number, one in enumerate(self.order)
            if one.state == State.HELD and ranks[id(one.lane)] < ranks[id(by.lane)]
        ]
        assert victim is self.order[max(eligible)[1]], "the wrong victim"
        super()._preempt(victim, by, now)


class Scheduled(RuleBasedStateMachine):
    """Requests of all classes come, wait, run, commit, leave; the fleet changes."""

    is_fair = False

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Watched(self.is_fair)
        self.now = 100.0
        self.most = 6  # that may run: the capacity, or more while it shrinks
        self.requests: list[Request] = []
        self.gone: dict[Request, list[str]] = {}
        self.committed: set[Request] = set()
        self.reactions: list[str] = []

    @initialize(reactions=REACTIONS)
    def script(self, reactions: list[str]) -> None:
        self.reactions = reactions

    # -- the verbs -------------------------------------------------------------------

    @rule(rank=st.integers(0, 3), tenant=st.sampled_from("xyz"))
    def submit(self, rank: int, tenant: str) -> None:
        request = Request(str(len(self.requests)), NAMES[rank], tenant)
        request.then = lambda: self.react(request)
        self.requests.append(request)
        try:
            has_permit = self.scheduler.submit(request, self.now)
        except SchedulerQueueFull:
            assert request.state in (State.SHED, State.ENDED)
        except Shed:
            assert request.state == State.ENDED  # preempted inside its own submit
        else:
            assert has_permit == request.has_permit
        assert request.heard == []

    @rule(pick=PICKS)
    def release(self, pick: int) -> None:
        running = [each for each in self.requests if each.has_permit]
        if running:
            self.end(running[pick % len(running)])

    @rule(pick=PICKS)
    def let_a_victim_go(self, pick: int) -> None:
        victims = [each for each in self.requests if each.state == State.PREEMPTED]
        if victims:
            self.end(victims[pick % len(victims)])

    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        if self.requests:
            request = self.requests[pick % len(self.requests)]
            self.gone.setdefault(request, list(request.heard))
            self.scheduler.cancel(request, self.now)

    @rule(pick=PICKS)
    def commit(self, pick: int) -> None:
        running = [each for each in self.requests if each.has_permit]
        if running:
            request = running[pick % len(running)]
            was_preempted = request.state == State.PREEMPTED
            assert request.commit() is not was_preempted
            if not was_preempted:
                self.committed.add(request)

    @rule(capacity=st.integers(1, 8))
    def change_the_fleet(self, capacity: int) -> None:
        self.most = max(capacity, self.scheduler.in_flight)
        self.scheduler.set_capacity(capacity, self.now)

    @rule(secs=st.sampled_from([0.0, 0.03, 0.05, 1.0, 2.0]))
    def pass_time(self, secs: float) -> None:
        self.now += secs
        self.scheduler.expire(self.now)
        due = self.scheduler.next_deadline()
        assert due is None or due > self.now

    @rule()
    def pass_time_unseen(self) -> None:
        self.now += 0.7

    def end(self, request: Request) -> None:
        """Give a slot back."""
        self.gone.setdefault(request, list(request.heard))
        self.scheduler.release(request, self.now)

    def react(self, request: Request) -> None:
        """Do the next thing of the script."""
        reaction = self.reactions.pop() if self.reactions else ""
        if reaction == "release" and request.has_permit:
            self.end(request)
        elif reaction == "submit":
            self.submit(len(self.requests) % 4, "x")
        elif reaction == "cancel another":
            self.cancel(len(self.requests) // 2)
        elif reaction == "expire":
            self.now += 0.06  # longer than a victim may take
            self.scheduler.expire(self.now)

    # -- what always holds -----------------------------------------------------------

    @invariant()
    def slots_are_those_that_requests_hold(self) -> None:
        held = [each.lane for each in self.requests if each.has_permit]
        assert self.scheduler.in_flight == len(held)
        for lane in self.scheduler.lanes:
            assert lane.in_flight == sum(each is lane for each in held)

    @invariant()
    def no_more_run_than_the_fleet_can_run(self) -> None:
        held = self.scheduler.in_flight
        assert held <= self.most
        self.most = max(self.scheduler.capacity, held)  # it drains, and never refills

    @invariant()
    def queues_hold_who_waits_and_keep_to_their_size(self) -> None:
        waiting = [each.lane for each in self.requests if each.state == State.WAITING]
        for lane in self.scheduler.lanes:
            assert len(lane.line.tickets) == sum(each is lane for each in waiting)
            assert 0 <= lane.claims <= len(lane.line.tickets)
            assert lane.queued <= lane.limits.queue_size
        assert (self.scheduler.next_deadline() is None) == (not waiting)

    @invariant()
    def nobody_waits_for_a_slot_that_it_could_have(self) -> None:
        free = self.scheduler.capacity - self.scheduler.in_flight
        for lane in self.scheduler.lanes:
            assert not lane.line.tickets or not lane.has_headroom(free)

    @invariant()
    def who_was_admitted_came_before_all_of_its_class_that_wait(self) -> None:
        for lane in self.scheduler.lanes:
            its = [each for each in self.requests if getattr(each, "lane", 0) is lane]
            if self.is_fair:
                its = [each for each in its if each.tenant == "x"]
            seen_waiting = False
            for each in its:
                seen_waiting = seen_waiting or each.state == State.WAITING
                assert not (seen_waiting and (each.has_permit or "grant" in each.heard))

    @invariant()
    def each_ticket_hears_one_fate_and_none_after_it_left(self) -> None:
        preempted = "scheduler_preempted"
        for each in self.requests:
            assert each.heard in (
                *([], ["grant"], [preempted], ["grant", preempted]),
                *(["scheduler_queue_timeout"], ["scheduler_queue_full"]),
            )
            assert (preempted in each.heard) <= (each not in self.committed)
        for request, heard in self.gone.items():
            assert request.heard == heard

    def teardown(self) -> None:
        while any(each.state != State.ENDED for each in self.requests):
            for each in list(self.requests):
                self.scheduler.cancel(each, self.now)
            self.reactions = []
        assert self.scheduler.in_flight == 0
        assert self.scheduler.next_deadline() is None
        for lane in self.scheduler.lanes:
            assert not lane.running and not lane.claims and not lane.in_flight


class FairlyScheduled(Scheduled):
    """The same with tenants in turn: the order of entry holds for each of them."""

    is_fair = True


TestScheduler = Scheduled.TestCase
TestFairScheduler = FairlyScheduled.TestCase
