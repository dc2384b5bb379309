"""The command line of the load test, and the order of its rounds."""

from pathlib import Path

import pytest

from loadtest import report
from loadtest.bench import (
    RESULTS,
    WORK,
    conclude,
    groups,
    parse_arguments,
    results_path,
    trials_path,
)
from loadtest.budgets import BUDGETS, Outcome, Verdict
from loadtest.programs import NAMES, Program
from loadtest.results import Results
from loadtest.rounds import rotated
from loadtest.scenarios import FULL, scenarios
from loadtest.stage import Target
from loadtest.trials import TRIALS


def test_all_programs_are_measured_unless_some_are_chosen() -> None:
    assert parse_arguments([]).only == list(NAMES)
    assert parse_arguments(["--only", "ours, smg"]).only == ["ours", "smg"]


@pytest.mark.parametrize("option", ["--only", "--scenarios"])
def test_an_unknown_name_is_a_usage_error(
    option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_arguments([option, "nothing-of-the-kind"])
    assert ended.value.code == 2
    assert "nothing-of-the-kind" in capsys.readouterr().err


def test_only_a_full_run_replaces_the_kept_results() -> None:
    assert results_path(parse_arguments([])) == RESULTS
    partial = (["--quick"], ["--only", "ours,smg"], ["--scenarios", "idle"])
    for argv in partial:
        assert results_path(parse_arguments(argv)) == WORK / "RESULTS.md"


def test_trials_run_only_when_they_are_asked_for() -> None:
    kinds = [kind.name for kind in scenarios(FULL)]
    trials = [trial.name for trial in TRIALS]
    assert parse_arguments([]).scenarios == kinds
    assert parse_arguments(["--all"]).scenarios == kinds + trials
    assert parse_arguments(["--scenarios", "http2"]).scenarios == ["http2"]


def test_a_trial_alone_is_kept_with_the_results_and_a_quick_one_is_not() -> None:
    alone = parse_arguments(["--scenarios", "resets"])
    assert trials_path(alone) == RESULTS
    assert results_path(alone) == WORK / "RESULTS.md"
    assert results_path(parse_arguments(["--all"])) == RESULTS
    quick = parse_arguments(["--scenarios", "resets", "--quick"])
    assert trials_path(quick) == WORK / "RESULTS.md"


def test_the_results_go_where_they_are_wanted(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    assert results_path(parse_arguments(["--results", str(path)])) == path


def test_each_round_begins_with_another_program() -> None:
    targets = [Target(name, 1, None) for name in "abc"]
    turns = ["".join(t.name for t in rotated(targets, turn)) for turn in range(4)]
    assert turns == ["abc", "bca", "cab", "abc"]
    assert rotated([], 2) == []


def test_under_another_policy_ours_is_compared_with_the_original_alone() -> None:
    kinds = [kind for kind in scenarios(FULL) if not kind.is_fresh]
    programs = [Program(name, "1", None, "/", "") for name in NAMES]
    (usual, every), (aware, some) = groups(kinds, programs)
    assert {kind.policy for kind in usual} == {"round_robin"}
    assert every == programs
    assert [kind.name for kind in aware] == ["buffered-cache_aware"]
    assert [program.name for program in some] == ["ours", "smg"]


def run(outcome: Outcome, results: Results) -> report.Run:
    verdict = Verdict(BUDGETS[0], outcome, 50.0, 100.0)
    return report.Run([("Kernel", "6.1")], [], [], [], results, [verdict])


@pytest.mark.parametrize(
    ("outcome", "code"),
    [(Outcome.MET, 0), (Outcome.UNKNOWN, 0), (Outcome.MISSED, 1)],
)
def test_a_missed_budget_fails_the_run(
    outcome: Outcome, code: int, tmp_path: Path
) -> None:
    assert conclude(run(outcome, Results()), tmp_path / "r.md", False) == code
    assert conclude(run(outcome, Results()), tmp_path / "r.md", True) == 0


def test_a_failure_of_ours_fails_the_run_and_one_of_another_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = Results()
    results.add_fault("smg", "start: no port")
    assert conclude(run(Outcome.MET, results), tmp_path / "r.md", False) == 0
    results.add_fault("ours", "stall: load tool silent")
    assert conclude(run(Outcome.MET, results), tmp_path / "r.md", False) == 1
    assert "ours FAILED: stall: load tool silent" in capsys.readouterr().out
