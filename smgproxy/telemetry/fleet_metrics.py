"""What the fleet's protection against overload counts, and discovery."""

from __future__ import annotations

from collections.abc import Iterator

from smgproxy.telemetry.families import Metric, counter

_STAGES = ("selection", "dispatch", "pd_admission")


def overload_families(sheds: int, fallbacks: int) -> Iterator[Metric]:
    """What became of requests whose workers were all overloaded."""
    counts = dict.fromkeys(_STAGES, 0) | {"selection": sheds}
    yield counter(
        "smg_worker_overload_shed",
        "Requests refused because all workers were overloaded",
        ["stage"],
        [((stage,), count) for stage, count in counts.items()],
    )
    yield counter(
        "smg_worker_overload_fallback",
        "Requests sent to the least loaded of workers that were all overloaded",
        ["stage"],
        [(("selection",), fallbacks)],
    )
