"""A clock that stands still until a test winds it."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import pytest


class FakeTimer:
    """What ``call_later`` returns."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Forget the call; safe to call twice."""
        self._callback = None

    @property
    def is_pending(self) -> bool:
        """Whether it will still be called."""
        return self._callback is not None

    def fire(self) -> None:
        """Call back, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class FakeClock:
    """Time and timers by hand: ``advance`` runs what falls due, in order of time.

    ``monotonic`` and ``call_later`` stand in for the functions of those names.
    """

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self._timers: list[tuple[float, int, FakeTimer]] = []
        self._order = itertools.count()

    def monotonic(self) -> float:
        """The time it is."""
        return self.now

    def call_later(self, delay: float, callback: Callable[[], object], /) -> FakeTimer:
        """Call back once, when the clock was wound ``delay`` seconds on."""
        assert delay >= 0
        timer = FakeTimer(callback)
        heapq.heappush(self._timers, (self.now + delay, next(self._order), timer))
        return timer

    def advance(self, secs: float) -> None:
        """Wind on; a timer that a timer sets runs too if it falls due."""
        end = self.now + secs
        while self._timers and self._timers[0][0] <= end:
            due, _, timer = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            timer.fire()
        self.now = end

    @property
    def pending(self) -> int:
        """Timers that were neither called nor cancelled: a leak if a test ends so."""
        return sum(timer.is_pending for _, _, timer in self._timers)

    def stand_in(self, patch: pytest.MonkeyPatch, *modules: str) -> None:
        """Put this clock in the place of ``monotonic`` in the modules named."""
        for module in modules:
            patch.setattr(f"{module}.monotonic", self.monotonic)
