"""The breaker against a list of everything that was ever told it."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from smgproxy.fleet.breaker import BreakerSettings, BreakerState, CircuitBreaker

FAILURES, SUCCESSES, TIMEOUT = 3, 2, 10.0
CLOSED, OPEN, HALF_OPEN = BreakerState


class BreakerMachine(RuleBasedStateMachine):
    """Its state follows from what happened since it last changed."""

    def __init__(self) -> None:
        super().__init__()
        self.breaker = CircuitBreaker(BreakerSettings(FAILURES, SUCCESSES, TIMEOUT))
        self.now = 0.0
        self.expected = CLOSED
        self.since: list[bool] = []
        self.opened_at = 0.0
        self.recorded = 0

    @rule(secs=st.sampled_from([0.5, 4.0, 10.0]))
    def time_passes(self, secs: float) -> None:
        self.now += secs

    @rule(is_success=st.booleans())
    def outcome(self, is_success: bool) -> None:
        self.recorded += 1
        self.since.append(is_success)
        if is_success:
            self.breaker.note_success()
        else:
            self.breaker.note_failure(self.now)
        failed = self.since[-FAILURES:] == [False] * FAILURES
        if self.expected is CLOSED and failed:
            self.becomes(OPEN)
        elif self.expected is HALF_OPEN and not is_success:
            self.becomes(OPEN)
        elif self.expected is HALF_OPEN and self.since == [True] * SUCCESSES:
            self.becomes(CLOSED)

    @rule()
    def asked(self) -> None:
        is_due = self.now >= self.opened_at + TIMEOUT
        if self.expected is OPEN and is_due:
            self.becomes(HALF_OPEN)
        assert self.breaker.admits(self.now) == (self.expected is not OPEN)

    @rule()
    def health_returned(self) -> None:
        self.breaker.note_health_returned()
        if self.expected is OPEN:
            self.becomes(HALF_OPEN)

    def becomes(self, state: BreakerState) -> None:
        self.expected = state
        self.since = []
        self.opened_at = self.now

    @invariant()
    def is_as_expected(self) -> None:
        breaker = self.breaker
        assert breaker.state is self.expected
        assert breaker.failures + breaker.successes == self.recorded
        assert not (breaker.failure_streak and breaker.success_streak)
        # Transitions form one walk through the states.
        entered = sum(n for (_, to), n in breaker.transitions.items() if to is OPEN)
        left = sum(n for (was, _), n in breaker.transitions.items() if was is OPEN)
        assert entered - left == (self.expected is OPEN)


TestBreaker = BreakerMachine.TestCase
