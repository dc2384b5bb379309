"""Families of the metrics page, made of rows: label values, then the number.

Making a family copies the numbers, no more; to hand it to prometheus_client, which
takes longer, can come later and still shows them as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from prometheus_client.core import Metric

from smgproxy.telemetry.logs import printable
from smgproxy.telemetry.stats import Histogram

Rows = Iterable[tuple[tuple[Any, ...], float]]


class Family:
    """One family of a snapshot; its samples are (suffix, label values, number)."""

    __slots__ = ("name", "_kind", "_help", "_labels", "_samples")

    def __init__(
        self,
        name: str,
        kind: str,
        help_text: str,
        labels: Sequence[str],
        samples: list[tuple[str, tuple[Any, ...], float]],
    ) -> None:
        self.name = name
        self._kind = kind
        self._help = help_text
        self._labels = labels
        self._samples = samples

    def metric(self) -> Metric:
        """What prometheus_client writes down."""
        made = Metric(self.name, self._help, self._kind)
        for suffix, values, number in self._samples:
            labels = dict(zip(self._labels, [_shown(str(value)) for value in values]))
            made.add_sample(self.name + suffix, labels, number)
        return made


def gauge(name: str, help_text: str, labels: Sequence[str], rows: Rows) -> Family:
    """Numbers that rise and fall."""
    return Family(name, "gauge", help_text, labels, [("", *row) for row in rows])


def counter(name: str, help_text: str, labels: Sequence[str], rows: Rows) -> Family:
    """Numbers that only rise; ``_total`` is added to the name."""
    samples = [("_total", *row) for row in rows]
    return Family(name, "counter", help_text, labels, samples)


def histogram(
    name: str,
    help_text: str,
    labels: Sequence[str],
    rows: Iterable[tuple[tuple[Any, ...], Histogram]],
) -> Family:
    """Counts by bucket."""
    samples: list[tuple[str, tuple[Any, ...], float]] = []
    for key, found in rows:
        buckets = found.cumulative()
        samples += [("_bucket", (*key, bound), count) for bound, count in buckets]
        samples += [("_sum", key, found.total), ("_count", key, buckets[-1][1])]
    return Family(name, "histogram", help_text, [*labels, "le"], samples)


@lru_cache(maxsize=4096)  # a worker's URL stands in a dozen families
def _shown(value: str) -> str:
    """A label value in printable ASCII: a lone surrogate could not be encoded."""
    return printable(value)
