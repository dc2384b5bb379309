"""The circuit breaker of one worker: who fails too often is left alone for a while.

| from      | to        | when                                                   |
|-----------|-----------|--------------------------------------------------------|
| closed    | open      | the failure threshold is reached, failures in a row    |
| open      | half-open | somebody asks after the timeout, or its health returns |
| half-open | closed    | the success threshold is reached, successes in a row   |
| half-open | open      | any failure; the timeout begins anew                   |

There is no sliding window and no timer: an open breaker that nobody asks stays open.
Half-open admits every request, not only a few probes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from enum import IntEnum

from smgproxy.core.options import flag

_GROUP = "Circuit Breaker"
# Failures in a row that nobody will ever see.
NEVER = 2**63 - 1


class BreakerState(IntEnum):
    """The values are those of the gauge ``smg_worker_cb_state``."""

    CLOSED = 0
    OPEN = 1
    HALF_OPEN = 2


# Every request asks for them, and an enumeration is slow to give a member.
_OPEN, _HALF_OPEN = BreakerState.OPEN, BreakerState.HALF_OPEN
TRANSITIONS = (
    (BreakerState.CLOSED, BreakerState.OPEN),
    (BreakerState.OPEN, BreakerState.HALF_OPEN),
    (BreakerState.HALF_OPEN, BreakerState.CLOSED),
    (BreakerState.HALF_OPEN, BreakerState.OPEN),
    # Legal in the contract's metric and never made by this breaker.
    (BreakerState.OPEN, BreakerState.CLOSED),
)


@dataclasses.dataclass(frozen=True)
class BreakerSettings:
    """A worker's part of its ``resilience`` block, gateway flags filled in.

    A status in ``capacity_status_codes`` records nothing, whatever else names it.
    """

    failure_threshold: int = 10
    success_threshold: int = 3
    timeout_secs: float = 60
    capacity_status_codes: frozenset[int] = frozenset((429,))
    failure_status_codes: frozenset[int] = frozenset((408, 500, 502, 503, 504))


@dataclasses.dataclass(frozen=True)
class BreakerOptions:
    """When a worker's breaker opens and closes."""

    cb_failure_threshold: int = flag(
        10,
        "--cb-failure-threshold",
        _GROUP,
        "failed requests in a row after which a worker gets no more of them",
        minimum=1,
    )
    cb_success_threshold: int = flag(
        3,
        "--cb-success-threshold",
        _GROUP,
        "good answers in a row after which a worker on trial is trusted again",
        minimum=1,
    )
    cb_timeout_duration_secs: int = flag(
        60,
        "--cb-timeout-duration-secs",
        _GROUP,
        "how long a worker gets no requests before it is tried again",
        minimum=1,
    )
    cb_window_duration_secs: int = flag(
        120,
        "--cb-window-duration-secs",
        _GROUP,
        "no effect, as in the original: failures in a row are counted, not a window",
        minimum=1,
    )
    disable_circuit_breaker: bool = flag(
        False,
        "--disable-circuit-breaker",
        _GROUP,
        "leave no worker alone for failing; a worker's own threshold still counts",
    )

    def settings(self) -> BreakerSettings:
        """The settings of a worker whose spec says nothing about it."""
        return BreakerSettings(
            NEVER if self.disable_circuit_breaker else self.cb_failure_threshold,
            self.cb_success_threshold,
            self.cb_timeout_duration_secs,
        )


class CircuitBreaker:
    """Counts a worker's outcomes in a row and says whether it may be picked.

    ``on_change`` is called after each transition, with the new state in place.
    ``reopens_at`` is when an open breaker lets the next request through; infinite
    otherwise. The rest are plain numbers that metrics read at scrape time.
    """

    __slots__ = (
        *("settings", "state", "reopens_at", "failure_streak", "success_streak"),
        *("failures", "successes", "readmissions", "transitions", "on_change"),
    )

    def __init__(self, settings: BreakerSettings | None = None) -> None:
        self.settings = settings or BreakerSettings()
        self.state = BreakerState.CLOSED
        self.reopens_at = math.inf
        self.failure_streak = 0
        self.success_streak = 0
        self.failures = 0
        self.successes = 0
        self.readmissions = 0
        self.transitions = dict.fromkeys(TRANSITIONS, 0)
        self.on_change: Callable[[], None] | None = None

    def admits(self, now: float) -> bool:
        """Whether the worker may be picked; this check is what ends the timeout."""
        if self.state is _OPEN:
            if now < self.reopens_at:
                return False
            self._try_out()
        return True

    def note_status(self, status: int, now: float) -> None:
        """Record a worker's answer by its status."""
        settings = self.settings
        if status in settings.capacity_status_codes:
            return  # a full worker is neither well nor ill
        if status in settings.failure_status_codes:
            self.note_failure(now)
        else:
            self.note_success()

    def note_failure(self, now: float) -> None:
        """Record a failure; the caller charges one for each request and worker."""
        self.failures += 1
        self.failure_streak += 1
        self.success_streak = 0
        is_over = self.failure_streak >= self.settings.failure_threshold
        if self.state is BreakerState.HALF_OPEN or (
            self.state is BreakerState.CLOSED and is_over
        ):
            self.reopens_at = now + self.settings.timeout_secs
            self._move(BreakerState.OPEN)

    def note_success(self) -> None:
        """Record a success; one for each attempt that succeeded."""
        self.successes += 1
        self.success_streak += 1
        self.failure_streak = 0
        threshold = self.settings.success_threshold
        if self.state is _HALF_OPEN and self.success_streak >= threshold:
            self.success_streak = 0
            self._move(BreakerState.CLOSED)

    def note_health_returned(self) -> None:
        """The worker's probes succeed again: an open breaker waits no longer."""
        if self.state is BreakerState.OPEN:
            self.readmissions += 1
            self._try_out()

    def _try_out(self) -> None:
        # Answers that came late, from before, are no part of the trial.
        self.failure_streak = self.success_streak = 0
        self.reopens_at = math.inf
        self._move(BreakerState.HALF_OPEN)

    def _move(self, state: BreakerState) -> None:
        self.transitions[self.state, state] += 1
        self.state = state
        if self.on_change is not None:
            self.on_change()
