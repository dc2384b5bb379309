"""What the fleet's protection against overload counts, and discovery."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from smgproxy.telemetry.families import Family, counter, gauge, histogram
from smgproxy.telemetry.stats import Histogram, RouterStats

_STAGES = ("selection", "dispatch", "pd_admission")


def overload_families(stats: RouterStats, fallbacks: int) -> Iterator[Family]:
    """What became of requests whose workers were overloaded.

    Those shed where a worker was to be chosen ("selection"), those shed when its
    connection was there at last ("dispatch"), and those that the least loaded one got
    all the same.
    """
    counts = dict.fromkeys(_STAGES, 0) | stats.sheds
    yield counter(
        "smg_worker_overload_shed",
        "Requests refused because their workers were overloaded",
        ["stage"],
        [((stage,), count) for stage, count in counts.items()],
    )
    yield counter(
        "smg_worker_overload_fallback",
        "Requests sent to the least loaded of workers that were all overloaded",
        ["stage"],
        [(("selection",), fallbacks)],
    )


class DiscoveryLike(Protocol):
    """A provider of workers, as far as it is counted."""

    source: str
    wanted: int
    added: int
    not_added: int
    removed: int
    snapshot_errors: dict[str, int]


def discovery_families(stats: DiscoveryLike, passes: Histogram) -> Iterator[Family]:
    """What a provider asked for and what became of it (contract, layer 4)."""
    source = stats.source
    yield counter(
        "smg_discovery_registrations",
        "Workers that discovery asked for",
        ["source", "result"],
        [((source, "success"), stats.added), ((source, "failed"), stats.not_added)],
    )
    yield counter(
        "smg_discovery_deregistrations",
        "Workers that discovery let go",
        ["source", "reason"],
        [((source, "reconciled"), stats.removed)],
    )
    yield histogram(
        "smg_discovery_sync_duration_seconds",
        "Passes that changed something",
        ["source"],
        [((source,), passes)],
    )
    yield gauge(
        "smg_discovery_workers_discovered",
        "Workers there should be",
        ["source"],
        [((source,), stats.wanted)],
    )
    yield counter(
        "smg_discovery_snapshot_errors",
        "Lists of workers that could not be used",
        ["source", "reason"],
        [((source, why), count) for why, count in stats.snapshot_errors.items()],
    )
