"""Families of the metrics page, made of rows: label values, then the number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from smgproxy.telemetry.logs import printable
from smgproxy.telemetry.stats import Histogram

Rows = Iterable[tuple[tuple[Any, ...], float]]
_Family = TypeVar("_Family", CounterMetricFamily, GaugeMetricFamily)


def gauge(name: str, help_text: str, labels: list[str], rows: Rows) -> Metric:
    """Numbers that rise and fall."""
    return _filled(GaugeMetricFamily(name, help_text, labels=labels), rows)


def counter(name: str, help_text: str, labels: list[str], rows: Rows) -> Metric:
    """Numbers that only rise; the page adds ``_total`` to the name."""
    return _filled(CounterMetricFamily(name, help_text, labels=labels), rows)


def histogram(
    name: str,
    help_text: str,
    labels: list[str],
    rows: Iterable[tuple[tuple[Any, ...], Histogram]],
) -> Metric:
    """Counts by bucket."""
    family = HistogramMetricFamily(name, help_text, labels=labels)
    for key, found in rows:
        family.add_metric(_values(key), found.cumulative(), found.total)
    return family


def _filled(family: _Family, rows: Rows) -> _Family:
    for key, value in rows:
        family.add_metric(_values(key), value)
    return family


def _values(key: tuple[Any, ...]) -> list[str]:
    """Label values that cannot break the page, whoever chose them."""
    return [printable(str(one)) for one in key]
