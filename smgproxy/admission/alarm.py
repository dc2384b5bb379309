"""One timer for all that waits, set for the earliest deadline there is."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.admission.ticket import Admission
from smgproxy.core.clock import CallLater, TimerHandle

# Event loops count whole milliseconds: what is due sooner is due in one.
_SHORTEST_SECS = 0.001


class Alarm:
    """Calls ``expire`` when it is time; ``check`` after each submit that waits.

    A timer that turns out to be too early is not moved, it looks and is set again:
    deadlines that come nearer are rare, and those that go away cost nothing.
    """

    __slots__ = ("_admission", "_call_later", "_clock", "_timer", "_due_at")

    def __init__(
        self,
        admission: Admission,
        call_later: CallLater,
        clock: Callable[[], float],
    ) -> None:
        self._admission = admission
        self._call_later = call_later
        self._clock = clock
        self._timer: TimerHandle | None = None
        self._due_at = 0.0

    def check(self) -> None:
        """A deadline may have come nearer."""
        due_at = self._admission.next_deadline()
        if due_at is None:
            return
        if self._timer is not None:
            if self._due_at <= due_at:
                return
            self._timer.cancel()
        delay = max(due_at - self._clock(), _SHORTEST_SECS)
        self._due_at = due_at
        self._timer = self._call_later(delay, self._ring)

    def close(self) -> None:
        """Ring no more; safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        self._admission.expire(self._clock())
        self.check()
