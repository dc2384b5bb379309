"""Percentiles of samples, and what the rounds of a metric come to."""

import pytest

from loadtest.stats import Pick, Summary, percentile, summarise


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.5, 51), (0.99, 100), (0.999, 100), (1.0, 100)]
)
def test_a_percentile_is_one_of_the_samples(share: float, expected: int) -> None:
    assert percentile(list(range(1, 101)), share) == expected


def test_a_percentile_of_nothing_is_zero() -> None:
    assert percentile([], 0.5) == 0


@pytest.mark.parametrize(
    ("pick", "expected"), [(Pick.MEDIAN, 12), (Pick.LEAST, 10), (Pick.MOST, 20)]
)
def test_the_picked_round_speaks_for_the_metric(pick: Pick, expected: float) -> None:
    assert summarise([20, 10, 12], pick).value == expected


def test_spread_is_half_the_range_as_a_share_of_the_value() -> None:
    assert summarise([9, 10, 12], Pick.MEDIAN) == Summary(10, 0.15)


def test_a_single_round_has_no_spread() -> None:
    assert summarise([7], Pick.MEDIAN) == Summary(7, 0)


def test_a_value_of_zero_has_no_spread() -> None:
    assert summarise([0, 0, 3], Pick.MEDIAN) == Summary(0, 0)
