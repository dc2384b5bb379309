"""What admission counts, as plain integers that are read when somebody scrapes."""

from __future__ import annotations

_OUTCOMES = (
    "admitted",
    "rejected_queue_full",
    "rejected_queue_timeout",
    "preempted",
    "client_cancelled",
)


class LimiterStats:
    """Decisions of a limiter; a waiter that leaves is none."""

    __slots__ = ("allowed", "turned_away", "timed_out", "unqueued")

    def __init__(self) -> None:
        self.allowed = 0
        self.turned_away = 0  # the queue was full
        self.timed_out = 0  # waited too long
        self.unqueued = 0  # there is no queue: --queue-size 0

    @property
    def rejected(self) -> int:
        """Everything that was shed, whatever the reason."""
        return self.turned_away + self.timed_out + self.unqueued


class ClassStats:
    """What became of the requests of one priority class.

    A preempted request counts twice: it was admitted before.
    """

    __slots__ = (*_OUTCOMES, "promotions")

    def __init__(self) -> None:
        self.admitted = 0
        self.rejected_queue_full = 0
        self.rejected_queue_timeout = 0
        self.preempted = 0
        self.client_cancelled = 0
        self.promotions = 0  # admitted past others' reservations, having starved

    def outcomes(self) -> list[tuple[str, int]]:
        """The contract's outcomes, and how often each came."""
        return [(name, getattr(self, name)) for name in _OUTCOMES]


class SchedulerStats:
    """What the scheduler counts beside the classes' own figures.

    Tenants choose their names, so only the first ``max_tenants`` of them become
    labels; the rest share "other" (ruling 17).
    """

    __slots__ = (
        "preemptions",
        "clamps",
        "unknown_priorities",
        "rate_rejected",
        "late_handovers",
        "_labels",
        "_max_tenants",
    )

    def __init__(self, max_tenants: int) -> None:
        self.preemptions: dict[tuple[str, str], int] = {}  # victim, by
        # tenant, class asked for, class given
        self.clamps: dict[tuple[str, str, str], int] = {}
        self.unknown_priorities: dict[str, int] = {}  # by tenant
        self.rate_rejected = 0
        self.late_handovers = 0  # a victim's slot came after the budget
        self._labels: set[str] = set()
        self._max_tenants = max_tenants

    def count_preemption(self, victim: str, by: str) -> None:
        """A request of class ``victim`` made way for one of class ``by``."""
        key = (victim, by)
        self.preemptions[key] = self.preemptions.get(key, 0) + 1

    def count_clamp(self, tenant: str, asked: str, given: str) -> None:
        """A tenant asked for more than its ceiling."""
        key = (self._label(tenant), asked, given)
        self.clamps[key] = self.clamps.get(key, 0) + 1

    def count_unknown_priority(self, tenant: str) -> None:
        """A priority header named no class."""
        label = self._label(tenant)
        self.unknown_priorities[label] = self.unknown_priorities.get(label, 0) + 1

    def _label(self, tenant: str) -> str:
        if tenant in self._labels:
            return tenant
        if len(self._labels) < self._max_tenants:
            self._labels.add(tenant)
            return tenant
        return "other"
