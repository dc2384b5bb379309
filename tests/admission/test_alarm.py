"""The alarm: one timer, set for the earliest deadline."""

from __future__ import annotations

from smgproxy.admission.alarm import Alarm
from smgproxy.admission.limiter import Limiter
from tests.admission.asking import submitted
from tests.fakes.clock import FakeClock


def alarmed(limiter: Limiter) -> tuple[Alarm, FakeClock]:
    clock = FakeClock()
    return Alarm(limiter, clock.call_later, clock.monotonic), clock


def test_rings_at_the_deadline_and_is_set_for_the_next() -> None:
    limiter = Limiter(1, 9, 2)
    alarm, clock = alarmed(limiter)
    submitted(limiter)
    one = submitted(limiter, now=clock.now)
    alarm.check()
    clock.advance(1.0)
    two = submitted(limiter, now=clock.now)
    alarm.check()
    clock.advance(1.0)
    assert (one.heard, two.heard) == (["admission_queue_timeout"], [])
    clock.advance(1.0)
    assert two.heard == ["admission_queue_timeout"]
    assert clock.pending == 0


def test_one_timer_serves_any_number_of_waiters() -> None:
    limiter = Limiter(1, 99, 2)
    alarm, clock = alarmed(limiter)
    for _ in range(50):
        submitted(limiter, now=clock.now)
        alarm.check()
    assert clock.pending == 1


def test_a_deadline_that_comes_nearer_moves_the_timer() -> None:
    class Nearing(Limiter):
        """A limiter that says what it is told to."""

        due = 1060.0

        def next_deadline(self) -> float | None:
            return self.due

    limiter = Nearing(1, 1, 1)
    alarm, clock = alarmed(limiter)
    alarm.check()
    limiter.due = 1000.05
    alarm.check()
    assert clock.pending == 1
    clock.advance(0.05)
    assert clock.pending == 1  # rang, and was set anew
    alarm.close()
    alarm.close()
    assert clock.pending == 0


def test_without_waiters_there_is_no_timer() -> None:
    alarm, clock = alarmed(Limiter(1, 9, 2))
    alarm.check()
    assert clock.pending == 0
