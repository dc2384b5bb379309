"""Coarse, lazy time: nothing on the hot path arms or cancels a timer.

A room that has deadlines keeps timestamps on its own objects and gives a ``Sweeper`` a
function that looks at them every so often; one timer serves any number of objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

monotonic = time.monotonic


class TimerHandle(Protocol):
    """What call_later returns."""

    def cancel(self) -> None:
        """Forget the call."""


class CallLater(Protocol):
    """The one thing a Sweeper needs of an event loop."""

    def __call__(self, delay: float, callback: Callable[[], object], /) -> TimerHandle:
        """Call back once after ``delay`` seconds."""


class Sweeper:
    """Calls ``sweep(now)`` every ``period_secs`` until closed."""

    __slots__ = ("_call_later", "_period", "_sweep", "_timer")

    def __init__(
        self,
        call_later: CallLater,
        period_secs: float,
        sweep: Callable[[float], object],
    ) -> None:
        self._call_later = call_later
        self._period = period_secs
        self._sweep = sweep
        self._timer: TimerHandle | None = call_later(period_secs, self._turn)

    def _turn(self) -> None:
        # Armed first: a sweep that raises must not end all sweeping.
        self._timer = self._call_later(self._period, self._turn)
        self._sweep(monotonic())

    def close(self) -> None:
        """Stop sweeping; safe to call twice."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
