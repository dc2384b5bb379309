"""Families of the metrics page, made of rows: label values, then the number.

Making a family copies the numbers; writing it out as text, which takes longer, can
come later and still shows them as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from smgproxy.telemetry.logs import printable
from smgproxy.telemetry.stats import Histogram

Rows = Iterable[tuple[tuple[Any, ...], float]]


class Metric:
    """One family of the page; its samples are (suffix, label values, number)."""

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

    def text(self) -> str:
        """Prometheus' text form, with the blank line that ends a family."""
        name, labels = self.name, self._labels
        lines = [f"# HELP {name} {self._help}", f"# TYPE {name} {self._kind}"]
        for suffix, values, number in self._samples:
            pairs = ",".join([_pair(*one) for one in zip(labels, map(str, values))])
            shown = number if type(number) is int else _number(number)
            lines.append(
                f"{name}{suffix}{{{pairs}}} {shown}"
                if pairs
                else f"{name}{suffix} {shown}"
            )
        lines.append("\n")
        return "\n".join(lines)


def gauge(name: str, help_text: str, labels: Sequence[str], rows: Rows) -> Metric:
    """Numbers that rise and fall."""
    return Metric(name, "gauge", help_text, labels, [("", *row) for row in rows])


def counter(name: str, help_text: str, labels: Sequence[str], rows: Rows) -> Metric:
    """Numbers that only rise; ``_total`` is added to the name."""
    samples = [("", *row) for row in rows]
    return Metric(f"{name}_total", "counter", help_text, labels, samples)


def histogram(
    name: str,
    help_text: str,
    labels: Sequence[str],
    rows: Iterable[tuple[tuple[Any, ...], Histogram]],
) -> Metric:
    """Counts by bucket."""
    samples: list[tuple[str, tuple[Any, ...], float]] = []
    for key, found in rows:
        buckets = found.cumulative()
        samples += [("_bucket", (*key, bound), count) for bound, count in buckets]
        samples += [("_sum", key, found.total), ("_count", key, buckets[-1][1])]
    return Metric(name, "histogram", help_text, [*labels, "le"], samples)


@lru_cache(maxsize=4096)  # a worker's URL stands in a dozen families
def _pair(label: str, value: str) -> str:
    """A label and its value, which cannot break the page, whoever chose it."""
    shown = printable(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'{label}="{shown}"'


def _number(number: float) -> str:
    """Whole numbers without a fraction (contract, metrics)."""
    number = float(number)
    if number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return repr(number).replace("inf", "Inf").replace("nan", "NaN")
