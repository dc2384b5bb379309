"""The tables of a run."""

from loadtest.budgets import BUDGETS, Budget, Outcome, Verdict
from loadtest.programs import Program
from loadtest.report import Run, budgets, cell, document, figures, programs, table
from loadtest.results import Results
from loadtest.stats import Metric, Pick

CPU = Metric("cpu", "CPU, us", 1)
OURS = Program("ours", "commit abc", None, "/readiness", "--policy round_robin")


def run(results: Results, verdicts: tuple[Verdict, ...] = ()) -> Run:
    facts = [("Kernel", "6.1")]
    return Run(facts, ["ours", "smg"], [OURS], [CPU], results, verdicts)


def measured(*values: float) -> Results:
    results = Results()
    for value in values:
        results.add("ours", {"cpu": value})
    return results


def test_columns_line_up_whatever_their_cells_hold() -> None:
    text = table([["a", "bb"], ["long cell", "1"]])
    assert text == (
        "| a         | bb |\n" "| --------- | -: |\n" "| long cell |  1 |\n"
    )


def test_a_cell_shows_the_median_and_the_spread() -> None:
    assert cell(measured(900, 1000, 1100), "ours", CPU) == "1,000.0 ±10%"


def test_a_cell_shows_no_spread_where_there_is_none() -> None:
    assert cell(measured(12.34), "ours", CPU) == "12.3"


def test_what_was_not_measured_is_a_dash() -> None:
    assert cell(Results(), "ours", CPU) == "-"


def test_figures_have_a_line_a_metric_and_a_column_a_program() -> None:
    head, rule, line = figures(run(measured(48))).splitlines()
    assert [part.strip() for part in head.split("|")] == ["", "", "ours", ""]
    assert [part.strip() for part in line.split("|")] == ["", "CPU, us", "48.0", ""]


def test_an_absent_program_is_a_row_that_says_so() -> None:
    line = programs(run(Results())).splitlines()[-1]
    assert "smg" in line and "not installed" in line


def test_a_share_is_shown_with_what_it_was_made_from() -> None:
    verdict = Verdict(BUDGETS[0], Outcome.MET, 40.0, 120.0)
    line = budgets(run(Results(), (verdict,))).splitlines()[-1]
    assert "at most 0.40" in line
    assert "0.33 (40.00 / 120.00)" in line
    assert line.endswith(" met |")


def test_a_difference_is_shown_as_one() -> None:
    points = Budget("Points", "x", -2, "smg", is_floor=True, is_difference=True)
    verdict = Verdict(points, Outcome.MET, 79.0, 80.5)
    line = budgets(run(Results(), (verdict,))).splitlines()[-1]
    assert "at least -2.00" in line and "-1.50 (79.00 - 80.50)" in line


def test_a_missed_budget_stands_out() -> None:
    floor = Budget("Smooth", "stall.smooth", 512, is_floor=True)
    verdict = Verdict(floor, Outcome.MISSED, 500.0, None)
    line = budgets(run(Results(), (verdict,))).splitlines()[-1]
    assert "at least 512" in line and "500.0" in line and "MISSED" in line


def test_the_document_holds_facts_tables_and_faults() -> None:
    results = measured(48)
    results.add_fault("ours", "stall: load tool silent")
    text = document(run(results))
    for part in ("Kernel", "commit abc", "48.0", "Verdict", "- ours: stall: load"):
        assert part in text


def test_the_worst_round_is_shown_where_it_counts() -> None:
    smooth = Metric("cpu", "Smooth", 0, Pick.LEAST)
    assert cell(measured(512, 500, 512), "ours", smooth).startswith("500")
