"""The priority scheduler: classes, reservations, starvation, preemption.

Takes the limiter's place when --priority-scheduler-enabled is set. Slots are as many
as the fleet can run at once. A slot that comes free goes to the highest class that
its superiors' reservations leave room for, except that who has starved goes first.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence

from smgproxy.admission.bucket import TokenBucket
from smgproxy.admission.classes import (
    BUILT_IN,
    CLASS_NAMES,
    DEFAULT_RANK,
    Ceilings,
    ClassLimits,
    ReservationsTooLarge,
    rank_of_header,
    scaled_slots,
    wanted_slots,
)
from smgproxy.admission.lane import Lane, LaneState, Observer
from smgproxy.admission.line import FairLine, Line
from smgproxy.admission.stats import SchedulerStats
from smgproxy.admission.ticket import Notices, State, Ticket
from smgproxy.core.errors import (
    Preempted,
    SchedulerQueueFull,
    SchedulerQueueTimeout,
    Shed,
)

# How long a preemptor counts on its victim's slot before it waits like others.
PREEMPTION_BUDGET_SECS = 0.05

_log = logging.getLogger("smgproxy.admission")


class Scheduler:
    """Slots for four classes of requests. Answers to Admission's verbs.

    ``limits``, and ``waits`` (fed with the seconds each waiter waited), are in order
    of rank. ``rate``, if given, is asked before anything else. Raises
    ReservationsTooLarge.
    """

    __slots__ = (
        "in_flight",
        "capacity",
        "stats",
        "_limits",
        "_ceilings",
        "_rate",
        "_lanes",
        "_from_the_top",
        "_waiting",
        "_claims",
        "_seen_at",
        "_notices",
    )

    def __init__(
        self,
        capacity: int,
        limits: Sequence[ClassLimits] = BUILT_IN,
        ceilings: Ceilings | None = None,
        *,
        is_fair: bool = False,
        rate: TokenBucket | None = None,
        waits: Sequence[Observer] | None = None,
        max_tenant_labels: int = 32,
    ) -> None:
        self.in_flight = 0
        self.capacity = capacity
        self.stats = SchedulerStats(max_tenant_labels)
        self._limits = limits
        self._ceilings = ceilings or Ceilings()
        self._rate = rate
        observers = waits or (None,) * len(CLASS_NAMES)
        self._lanes = tuple(
            Lane(rank, each, FairLine() if is_fair else Line(), observers[rank])
            for rank, each in enumerate(limits)
        )
        for rank, lane in enumerate(self._lanes):
            lane.place(self._lanes, rank)
        self._from_the_top = self._lanes[::-1]
        self._waiting = 0
        # Preemptors whose victim's slot is on its way, and until when they count on
        # it. All have the same budget, so they stand in order of their deadlines.
        self._claims: OrderedDict[Ticket, float] = OrderedDict()
        self._seen_at = 0.0  # the latest time that expire() or a new waiter brought
        self._notices = Notices()
        wanted = sum(wanted_slots(limits, capacity))
        if wanted > capacity:
            raise ReservationsTooLarge(wanted, capacity)
        self._reserve()

    # -- the verbs -------------------------------------------------------------------

    def submit(self, ticket: Ticket, now: float) -> bool:
        """Admission.submit; raises SchedulerQueueFull."""
        if self._rate is not None and not self._rate.take(now):
            self.stats.rate_rejected += 1
            ticket.state = State.SHED
            raise SchedulerQueueFull()
        lane = self._lane_for(ticket)
        ticket.lane = lane
        # Whoever waits found no headroom, and none came since: nobody is overtaken.
        if lane.has_headroom(self.capacity - self.in_flight):
            self._admit(lane, ticket)
            return True
        victim = lane.pick_victim()
        if victim is None and not lane.has_queue_room:
            lane.stats.rejected_queue_full += 1
            ticket.state = State.SHED
            raise SchedulerQueueFull()
        self._enqueue(lane, ticket, now)
        if victim is not None:
            self._preempt(victim, ticket, now)
            self._notices.tell(submitted=ticket)
            # The victim may have done anything from inside its call.
            shed = ticket.shed
            if shed is not None:
                self.cancel(ticket, now)
                raise shed
        return ticket.has_permit

    def cancel(self, ticket: Ticket, now: float) -> None:
        """Admission.cancel."""
        if ticket.has_permit:
            self.release(ticket, now)
        elif ticket.state == State.WAITING:
            lane: Lane = ticket.lane
            lane.line.remove(ticket)
            self._left(lane, ticket)
            lane.stats.client_cancelled += 1
        ticket.state = State.ENDED
        ticket.shed = None

    def release(self, ticket: Ticket, now: float) -> None:
        """Admission.release: a victim's slot goes to its preemptor's class."""
        state = ticket.state
        assert State.HELD <= state <= State.PREEMPTED, state
        ticket.state = State.ENDED
        lane: Lane = ticket.lane
        self.in_flight -= 1
        lane.in_flight -= 1
        if lane.is_preemptible:
            lane.running.pop(ticket, None)
        if not self._waiting:
            return
        if state == State.PREEMPTED and ticket.claimant in self._claims:
            self._hand_over(ticket, now)
        self._dispatch(now)
        self._notices.tell()

    def expire(self, now: float) -> None:
        """Admission.expire: promote who starves, shed who waited too long."""
        self._seen_at = now
        self._give_up_claims(now)
        self._dispatch(now)
        for lane in self._lanes:
            while lane.line.tickets and lane.line.oldest().deadline <= now:
                lane.stats.rejected_queue_timeout += 1
                self._shed(lane, lane.line.oldest(), SchedulerQueueTimeout())
        self._notices.tell()

    def next_deadline(self) -> float | None:
        """Admission.next_deadline: of a timeout, a promotion or a late victim."""
        if not self._waiting:
            return None
        earliest = next(iter(self._claims.values()), float("inf"))
        is_full = self.in_flight >= self.capacity
        for lane in self._lanes:
            if not lane.line.tickets:
                continue
            earliest = min(earliest, lane.line.oldest().deadline)
            starves_at = lane.starves_at()
            # One that starves already and finds no slot is waiting for a release.
            if starves_at > self._seen_at or not is_full:
                earliest = min(earliest, starves_at)
        return earliest

    # -- the fleet, and the scrape ---------------------------------------------------

    def set_capacity(self, capacity: int, now: float) -> None:
        """The fleet can run another number of requests; nobody is cancelled for it."""
        if capacity == self.capacity:
            return
        self.capacity = capacity
        self._reserve()
        self._dispatch(now)
        self._notices.tell()

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """The classes in rising order, to be read."""
        return self._lanes

    def states(self) -> list[LaneState]:
        """The classes' gauges."""
        return [lane.state(self.capacity) for lane in self._lanes]

    # -- inside ----------------------------------------------------------------------

    def _reserve(self) -> None:
        wanted = wanted_slots(self._limits, self.capacity)
        slots = scaled_slots(wanted, self.capacity)
        for lane, reserved in zip(self._lanes, slots):
            lane.reserved = reserved
        if slots != wanted:
            _log.warning(
                "class reservations (%d) exceed capacity (%d); scaled down to %s",
                sum(wanted),
                self.capacity,
                ", ".join(f"{one.name} {one.reserved}" for one in self._from_the_top),
            )

    def _lane_for(self, ticket: Ticket) -> Lane:
        """The class asked for, held down to the tenant's ceiling."""
        rank = rank_of_header(ticket.priority)
        if rank is None:
            self.stats.count_unknown_priority(ticket.tenant)
            rank = DEFAULT_RANK
        ceiling = self._ceilings.of(ticket.tenant)
        if rank > ceiling:
            self.stats.count_clamp(
                ticket.tenant, CLASS_NAMES[rank], CLASS_NAMES[ceiling]
            )
            rank = ceiling
        return self._lanes[rank]

    def _admit(self, lane: Lane, ticket: Ticket) -> None:
        ticket.state = State.HELD
        self.in_flight += 1
        lane.in_flight += 1
        lane.stats.admitted += 1
        if lane.is_preemptible:
            lane.running[ticket] = None

    def _enqueue(self, lane: Lane, ticket: Ticket, now: float) -> None:
        ticket.state = State.WAITING
        ticket.entered_at = self._seen_at = now
        ticket.deadline = now + lane.limits.queue_timeout_secs
        lane.line.add(ticket)
        self._waiting += 1

    def _preempt(self, victim: Ticket, by: Ticket, now: float) -> None:
        loser: Lane = victim.lane
        winner: Lane = by.lane
        victim.state = State.PREEMPTED
        victim.shed = Preempted()
        victim.claimant = by
        by.victim = victim
        self._claims[by] = now + PREEMPTION_BUDGET_SECS
        winner.claims += 1
        loser.stats.preempted += 1
        self.stats.count_preemption(loser.name, winner.name)
        self._notices.add(victim)

    def _hand_over(self, victim: Ticket, now: float) -> None:
        """The victim's slot, past all reservations, for the class that took it.

        For the class, not for the preemptor: others of it may have come earlier.
        """
        claimant = victim.claimant
        lane: Lane = claimant.lane
        first = lane.line.first()
        if first in self._claims:
            # Its own victim's slot is then the other one's (or both are the same).
            claimant.victim = first.victim
            claimant.victim.claimant = claimant
        else:
            self._withdraw(claimant)
        self._grant(lane, now)

    def _withdraw(self, claimant: Ticket) -> None:
        del self._claims[claimant]
        claimant.lane.claims -= 1

    def _left(self, lane: Lane, ticket: Ticket) -> None:
        self._waiting -= 1
        if ticket in self._claims:
            self._withdraw(ticket)

    def _grant(self, lane: Lane, now: float) -> None:
        """A slot for the class's next waiter."""
        ticket = lane.line.take()
        self._left(lane, ticket)
        self._admit(lane, ticket)
        if lane.waits is not None:
            lane.waits.observe(now - ticket.entered_at)
        self._notices.add(ticket)

    def _shed(self, lane: Lane, ticket: Ticket, shed: Shed) -> None:
        lane.line.remove(ticket)
        self._left(lane, ticket)
        ticket.state = State.SHED
        ticket.shed = shed
        self._notices.add(ticket)

    def _dispatch(self, now: float) -> None:
        while self._waiting and self.in_flight < self.capacity:
            for lane in self._lanes:
                if lane.is_starved(now):
                    lane.stats.promotions += 1
                    self._grant(lane, now)
                    break
            else:
                self._fill(now)
                return

    def _fill(self, now: float) -> None:
        """From the top, as many of each class as there is headroom for."""
        for lane in self._from_the_top:
            while lane.line.tickets and lane.has_headroom(
                self.capacity - self.in_flight
            ):
                self._grant(lane, now)

    def _give_up_claims(self, now: float) -> None:
        """Preemptors whose victim is late now wait like everybody, if there is room."""
        while self._claims:
            ticket, until = next(iter(self._claims.items()))
            if until > now:
                return
            self._withdraw(ticket)
            self.stats.late_handovers += 1
            lane: Lane = ticket.lane
            _log.warning(
                "a preempted request kept its slot for more than %d ms; "
                "its %s preemptor waits in the queue",
                PREEMPTION_BUDGET_SECS * 1000,
                lane.name,
            )
            if lane.queued > lane.limits.queue_size:
                lane.stats.rejected_queue_full += 1
                self._shed(lane, ticket, SchedulerQueueFull())
