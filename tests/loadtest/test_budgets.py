"""Holding results against budgets."""

import pytest

from loadtest.budgets import BUDGETS, Budget, Outcome, judge, judge_all
from loadtest.results import Results
from loadtest.scenarios import FULL, scenarios
from loadtest.stats import Metric, Pick

SHARE = Budget("CPU, of the original's", "x", 0.40, versus="smg")
CEILING = Budget("Memory", "x", 80)
FLOOR = Budget("Smooth streams", "x", 512, is_floor=True)


def outcome(budget: Budget, pick: Pick = Pick.MEDIAN, **rounds: list[float]) -> Outcome:
    results = Results()
    for program, values in rounds.items():
        for value in values:
            results.add(program, {"x": value})
    return judge(budget, results, {"x": Metric("x", "", 0, pick)}).outcome


@pytest.mark.parametrize(
    ("ours", "expected"), [(39.9, Outcome.MET), (40, Outcome.MET), (41, Outcome.MISSED)]
)
def test_a_share_is_held_against_the_other_program(
    ours: float, expected: Outcome
) -> None:
    assert outcome(SHARE, ours=[ours], smg=[100]) is expected


def test_a_share_without_the_other_program_is_not_measured() -> None:
    assert outcome(SHARE, ours=[40]) is Outcome.UNKNOWN


def test_a_share_of_nothing_is_not_measured() -> None:
    assert outcome(SHARE, ours=[40], smg=[0]) is Outcome.UNKNOWN


def test_a_difference_may_be_as_large_as_its_bound() -> None:
    points = Budget("Points", "x", -2, "smg", is_floor=True, is_difference=True)
    assert outcome(points, ours=[78], smg=[80]) is Outcome.MET
    assert outcome(points, ours=[77.9], smg=[80]) is Outcome.MISSED
    assert outcome(points, ours=[0], smg=[0]) is Outcome.MET
    assert outcome(points, ours=[78]) is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("ours", "expected"), [(80, Outcome.MET), (80.1, Outcome.MISSED)]
)
def test_a_ceiling_may_be_reached_and_not_passed(
    ours: float, expected: Outcome
) -> None:
    assert outcome(CEILING, ours=[ours]) is expected


@pytest.mark.parametrize(
    ("ours", "expected"), [(512, Outcome.MET), (511, Outcome.MISSED)]
)
def test_a_floor_must_be_reached(ours: float, expected: Outcome) -> None:
    assert outcome(FLOOR, ours=[ours]) is expected


def test_one_bad_round_misses_a_budget_that_takes_the_worst() -> None:
    assert outcome(FLOOR, Pick.LEAST, ours=[512, 511, 512]) is Outcome.MISSED
    assert outcome(FLOOR, Pick.MEDIAN, ours=[512, 511, 512]) is Outcome.MET


def test_without_ours_every_budget_is_not_measured() -> None:
    metrics = {m.key: m for kind in scenarios(FULL) for m in kind.metrics}
    verdicts = judge_all(Results(), metrics)
    assert [verdict.outcome for verdict in verdicts] == [Outcome.UNKNOWN] * len(BUDGETS)


def test_every_budget_names_a_metric_of_a_scenario() -> None:
    keys = [metric.key for kind in scenarios(FULL) for metric in kind.metrics]
    assert len(keys) == len(set(keys))
    assert {budget.key for budget in BUDGETS} <= set(keys)
