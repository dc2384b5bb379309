"""The arithmetic of a measurement: percentiles of samples, values of rounds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class Pick(Enum):
    """Which of its rounds speaks for a metric."""

    MEDIAN = "median"
    LEAST = "least"
    MOST = "most"


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table. `key` is unique over all scenarios."""

    key: str
    label: str
    digits: int = 0
    pick: Pick = Pick.MEDIAN


@dataclass(frozen=True, slots=True)
class Summary:
    """The value of a metric and how far its rounds lay apart.

    `spread` is half the distance from least to most, as a share of the value.
    """

    value: float
    spread: float


def percentile(ordered: Sequence[float], share: float) -> float:
    """The sample below which `share` of the ordered samples lie; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def summarise(rounds: Sequence[float], pick: Pick) -> Summary:
    """What the rounds of one metric come to; there must be at least one."""
    least, most = min(rounds), max(rounds)
    picked = {
        Pick.MEDIAN: statistics.median(rounds),
        Pick.LEAST: least,
        Pick.MOST: most,
    }
    value = picked[pick]
    spread = (most - least) / 2 / abs(value) if value else 0.0
    return Summary(float(value), spread)
