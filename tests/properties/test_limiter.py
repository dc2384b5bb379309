"""The limits, in any order of verbs: no permit lost or doubled, one end a ticket."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from smgproxy.admission.limiter import Limiter, RefillLimiter
from smgproxy.admission.ticket import State
from smgproxy.core.errors import AdmissionQueueFull
from tests.admission.asking import Request

CAPACITY, QUEUE_SIZE, TIMEOUT = 3, 4, 2
PICKS = st.integers(0, 2**16)
# What a request does from inside the call that tells it of its fate.
REACTIONS = st.lists(
    st.sampled_from(["", "", "release", "submit", "cancel another", "expire"]),
    max_size=12,
)


class Limited(RuleBasedStateMachine):
    """Requests come, wait, run and leave, also from inside each other's calls."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = self.make()
        self.now = 100.0
        self.requests: list[Request] = []  # in order of submission
        self.admitted: list[Request] = []  # in order of admission, as far as seen
        self.gone: dict[Request, list[str]] = {}  # what those had heard that left
        self.reactions: list[str] = []

    def make(self) -> Limiter:
        """The limiter under test."""
        return Limiter(CAPACITY, QUEUE_SIZE, TIMEOUT)

    @initialize(reactions=REACTIONS)
    def script(self, reactions: list[str]) -> None:
        self.reactions = reactions

    # -- the verbs -------------------------------------------------------------------

    @rule()
    def submit(self) -> None:
        request = Request(str(len(self.requests)))
        request.then = lambda: self.react(request)
        self.requests.append(request)
        was_full = self.limiter.depth == QUEUE_SIZE
        try:
            has_permit = self.limiter.submit(request, self.now)
        except AdmissionQueueFull:
            assert was_full
            assert request.state == State.SHED
        else:
            assert has_permit == (request.state == State.HELD)
            assert has_permit or not was_full
        assert request.heard == []

    @rule(pick=PICKS)
    def release(self, pick: int) -> None:
        running = [each for each in self.requests if each.has_permit]
        if running:
            self.end(running[pick % len(running)])

    @rule(pick=PICKS)
    def cancel(self, pick: int) -> None:
        if self.requests:
            request = self.requests[pick % len(self.requests)]
            self.gone.setdefault(request, list(request.heard))
            self.limiter.cancel(request, self.now)

    @rule(pick=PICKS)
    def commit(self, pick: int) -> None:
        running = [each for each in self.requests if each.has_permit]
        if running:
            assert running[pick % len(running)].commit()

    @rule(secs=st.sampled_from([0.0, 0.1, 0.5, 1.0, TIMEOUT]))
    def pass_time(self, secs: float) -> None:
        self.now += secs
        self.expire()

    @rule()
    def pass_time_unseen(self) -> None:
        self.now += 0.3

    @rule()
    def expire(self) -> None:
        self.limiter.expire(self.now)
        if self.limiter.depth:
            assert (self.limiter.next_deadline() or 0) > self.now

    def end(self, request: Request) -> None:
        """Give a permit back."""
        self.gone.setdefault(request, list(request.heard))
        self.limiter.release(request, self.now)

    def react(self, request: Request) -> None:
        """Do the next thing of the script."""
        reaction = self.reactions.pop() if self.reactions else ""
        if reaction == "release" and request.has_permit:
            self.end(request)
        elif reaction == "submit":
            self.submit()
        elif reaction == "cancel another":
            self.cancel(len(self.requests) // 2)
        elif reaction == "expire":
            self.limiter.expire(self.now)

    # -- what always holds -----------------------------------------------------------

    @invariant()
    def permits_are_those_that_requests_hold(self) -> None:
        held = sum(each.has_permit for each in self.requests)
        assert self.limiter.in_flight == held
        self.holds_to_the_cap(held)

    def holds_to_the_cap(self, held: int) -> None:
        """Nobody waits while a permit is free."""
        assert held <= CAPACITY
        assert held == CAPACITY or not self.limiter.depth

    @invariant()
    def waiters_are_in_the_queue_and_nobody_else(self) -> None:
        waiting = sum(each.state == State.WAITING for each in self.requests)
        assert waiting == self.limiter.depth <= QUEUE_SIZE
        assert (self.limiter.next_deadline() is None) == (waiting == 0)

    @invariant()
    def who_was_admitted_came_before_all_who_wait(self) -> None:
        waiting = [each for each in self.requests if each.state == State.WAITING]
        if waiting:
            later = self.requests[self.requests.index(waiting[0]) :]
            assert not any(each.has_permit or "grant" in each.heard for each in later)

    @invariant()
    def each_ticket_hears_one_fate_and_none_after_it_left(self) -> None:
        for each in self.requests:
            assert each.heard in ([], ["grant"], ["admission_queue_timeout"])
        for request, heard in self.gone.items():
            assert request.heard == heard

    @invariant()
    def every_decision_is_counted_once(self) -> None:
        stats = self.limiter.stats
        shed = sum(each.state == State.SHED for each in self.requests)
        assert stats.allowed + stats.rejected <= len(self.requests)
        assert shed <= stats.rejected

    def teardown(self) -> None:
        while any(each.state != State.ENDED for each in self.requests):
            for each in list(self.requests):
                self.limiter.cancel(each, self.now)
            self.reactions = []  # those may have brought new ones
        assert (self.limiter.in_flight, self.limiter.depth) == (0, 0)


class Refilled(Limited):
    """The same with time that brings tokens: no cap, and no order of arrival."""

    PER_SECOND = 2

    def make(self) -> Limiter:
        return RefillLimiter(CAPACITY, QUEUE_SIZE, TIMEOUT, self.PER_SECOND)

    def holds_to_the_cap(self, held: int) -> None:
        """Time may have brought so many permits, and no more."""
        assert held <= CAPACITY + (self.now - 100.0) * self.PER_SECOND + 1e-3

    @invariant()
    def who_was_admitted_came_before_all_who_wait(self) -> None:
        """No order is promised."""


TestLimiter = Limited.TestCase
TestRefillLimiter = Refilled.TestCase
