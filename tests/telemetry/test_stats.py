"""Counters: what they count, and that no client can make them grow without bound."""

from __future__ import annotations

import pytest

from smgproxy.telemetry.stats import (
    MAX_MODELS,
    Histogram,
    HttpStats,
    LoopStats,
    RouterStats,
)


def test_a_bound_belongs_to_the_bucket_below_it() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 2.0, 9.0):
        histogram.observe(value)
    assert histogram.cumulative() == [("1", 2), ("2", 4), ("+Inf", 5)]
    assert histogram.total == 14.0


def test_methods_outside_the_contract_share_a_label() -> None:
    stats = HttpStats()
    for method in ("GET", "BREW", "X" * 100):
        stats.of(method, "other").requests += 1
        stats.of(method, "other").heads.observe(0.1)
    assert stats.requests == {("GET", "other"): 1, ("OTHER", "other"): 2}
    assert set(stats.durations) == set(stats.requests)


@pytest.mark.parametrize(
    ("model", "is_served", "label"),
    [
        (None, True, "unknown"),
        ("", True, "unknown"),
        ("unknown", True, "unknown"),
        ("m", True, "m"),
        ("nobody", False, "other"),
    ],
)
def test_a_models_label_is_its_name_only_if_somebody_serves_it(
    model: str | None, is_served: bool, label: str
) -> None:
    assert RouterStats().label(model, is_served) == label


def test_model_labels_are_bounded() -> None:
    stats = RouterStats()
    labels = {stats.label(f"m{i}", True) for i in range(MAX_MODELS + 10)}
    assert len(labels) == MAX_MODELS + 1
    assert stats.label("m0", False) == "m0"


def test_a_late_tick_of_the_loop_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("smgproxy.telemetry.stats.time.monotonic", lambda: 0.0)
    loop = LoopStats(0.1)
    loop.tick(0.101)
    assert loop.stalls == 0
    loop.tick(0.301)
    assert loop.stalls == 1
    assert loop.delays.total == pytest.approx(0.101)
