"""When probes move a worker from one state to another; pure counting, no clock.

| from                | to        | after                                        |
|---------------------|-----------|----------------------------------------------|
| pending             | ready     | S good probes in a row                       |
| pending             | failed    | 10 x F failed probes without them            |
| ready               | not_ready | F failed probes in a row                     |
| not_ready           | failed    | 3 x F further failed probes in a row         |
| not_ready or failed | ready     | S good probes in a row                       |

S and F are the worker's thresholds. Draining is nobody's to leave.
"""

from __future__ import annotations

from smgproxy.fleet.worker import HealthSettings, WorkerState

PENDING_FACTOR = 10
NOT_READY_FACTOR = 3


class HealthRecord:
    """A worker's probes since it last changed state."""

    __slots__ = ("_successes", "_failures", "_all_failures")

    def __init__(self) -> None:
        self._successes = 0
        self._failures = 0
        self._all_failures = 0

    def note(
        self, state: WorkerState, is_healthy: bool, settings: HealthSettings
    ) -> WorkerState:
        """Count one probe of a worker in ``state``; where it stands now."""
        if is_healthy:
            self._successes += 1
            self._failures = 0
        else:
            self._failures += 1
            self._all_failures += 1
            self._successes = 0
        after = self._judge(state, settings)
        if after is not state:
            self._successes = self._failures = self._all_failures = 0
        return after

    def _judge(self, state: WorkerState, settings: HealthSettings) -> WorkerState:
        threshold = settings.failure_threshold
        if state is WorkerState.DRAINING:
            return state
        if state is WorkerState.READY:
            is_out = self._failures >= threshold
            return WorkerState.NOT_READY if is_out else state
        if self._successes >= settings.success_threshold:
            return WorkerState.READY
        if state is WorkerState.PENDING:
            has_failed = self._all_failures >= PENDING_FACTOR * threshold
        else:
            has_failed = self._failures >= NOT_READY_FACTOR * threshold
        return WorkerState.FAILED if has_failed else state
