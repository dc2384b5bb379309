"""What admission counts: the limiter's families, or the scheduler's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from smgproxy.telemetry.families import Family, counter, gauge, histogram
from smgproxy.telemetry.stats import Histogram


class LimiterLike(Protocol):
    """The limiter, as far as it is counted."""

    in_flight: int
    stats: Any  # allowed, rejected, turned_away, timed_out

    @property
    def depth(self) -> int:
        """Waiters now."""


class SchedulerLike(Protocol):
    """The scheduler, as far as it is counted."""

    in_flight: int
    capacity: int
    stats: Any  # preemptions, clamps, unknown_priorities, rate_rejected

    @property
    def lanes(self) -> Sequence[Any]:
        """The classes: name, stats."""

    def states(self) -> Iterable[tuple[str, int, int, int, float]]:
        """Each class: name, in flight, waiting, queue size, pressure."""


def limiter_families(limiter: LimiterLike) -> Iterator[Family]:
    """The families of a limiter; one that is off has none."""
    stats = limiter.stats
    yield gauge("smg_admission_inflight", "Permits held", [], [((), limiter.in_flight)])
    yield gauge(
        "smg_admission_queue_depth", "Waiters for a permit", [], [((), limiter.depth)]
    )
    yield counter(
        "smg_admission_queue_rejected",
        "Requests that the queue turned away",
        ["reason"],
        [(("full",), stats.turned_away), (("timeout",), stats.timed_out)],
    )
    yield _rate_limit({"allowed": stats.allowed, "rejected": stats.rejected})


def scheduler_families(
    scheduler: SchedulerLike, waits: Sequence[Histogram]
) -> Iterator[Family]:
    """The families of the scheduler; ``waits`` in the order of its classes."""
    yield from _class_counters(scheduler, waits)
    yield from _class_gauges(scheduler)
    stats = scheduler.stats
    yield counter(
        "smg_scheduler_preemption",
        "Requests that made way for a higher class",
        ["victim_class", "by_class"],
        stats.preemptions.items(),
    )
    yield counter(
        "smg_scheduler_clamp",
        "Requests lowered to their tenant's highest class",
        ["tenant", "requested_class", "effective_class"],
        stats.clamps.items(),
    )
    yield counter(
        "smg_scheduler_unknown_priority_value",
        "Priority headers that name no class",
        ["tenant"],
        [((tenant,), count) for tenant, count in stats.unknown_priorities.items()],
    )
    yield gauge(
        "smg_scheduler_utilization",
        "Requests in flight by slots",
        [],
        [((), scheduler.in_flight / scheduler.capacity)],
    )
    # Of the request-rate check in front of it; what it lets through is not counted.
    yield _rate_limit({"rejected": stats.rate_rejected})


def _class_counters(
    scheduler: SchedulerLike, waits: Sequence[Histogram]
) -> Iterator[Family]:
    lanes = scheduler.lanes
    yield counter(
        "smg_scheduler_admit",
        "What became of requests; one that was preempted was admitted before",
        ["class", "outcome"],
        [
            ((lane.name, outcome), count)
            for lane in lanes
            for outcome, count in lane.stats.outcomes()
        ],
    )
    yield counter(
        "smg_scheduler_starvation_promotion",
        "Requests admitted past reservations because they had starved",
        ["class"],
        [((lane.name,), lane.stats.promotions) for lane in lanes],
    )
    yield histogram(
        "smg_scheduler_queue_wait_seconds",
        "Wait of requests that queued and were admitted",
        ["class"],
        [((lane.name,), found) for lane, found in zip(lanes, waits)],
    )


def _class_gauges(scheduler: SchedulerLike) -> Iterator[Family]:
    states = list(scheduler.states())
    for place, (name, help_text) in enumerate(
        (
            ("smg_scheduler_inflight", "Requests in flight"),
            ("smg_scheduler_queue_depth", "Requests that wait"),
            ("smg_scheduler_queue_size_limit", "Requests that may wait"),
            (
                "smg_scheduler_class_capacity_pressure",
                "How full the queue, or the class's slots, are: 0 to 1",
            ),
        ),
        start=1,
    ):
        rows = [((state[0],), float(state[place])) for state in states]
        yield gauge(name, help_text, ["class"], rows)


def _rate_limit(results: dict[str, int]) -> Family:
    return counter(
        "smg_http_rate_limit",
        "Admission decisions",
        ["result"],
        [((result,), count) for result, count in results.items()],
    )
