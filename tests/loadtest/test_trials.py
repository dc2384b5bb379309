"""Trials: their names, their budgets, and what they read of what others say."""

from pathlib import Path

import pytest

from loadtest.budgets import TRIAL_BUDGETS, budgets_of
from loadtest.programs import NAMES, Program
from loadtest.scenarios import FULL, scenarios
from loadtest.stage import MeasureError, Stage
from loadtest.stats import Metric
from loadtest.toolbox import Toolbox
from loadtest.trialruns import run_trials
from loadtest.trials import TRIALS
from loadtest.trials.admission import held, strays
from loadtest.trials.http2 import parse_h2load
from loadtest.trials.trial import Skipped, Trial

H2LOAD = """
finished in 1.25s, 24000.00 req/s, 14.10MB/s
requests: 30000 total, 30000 started, 30000 done, {} succeeded, {} failed, 0 errored, \
0 timeout
status codes: 30000 2xx, 0 3xx, 0 4xx, 0 5xx
                     min         max         mean         sd        +/- sd
time for request:      900us     11.20ms      2.60ms       700us    71.00%
time for connect:      100us       400us       250us       120us    50.00%
"""
OURS = Program("ours", "abc", None, "/", "")


def test_no_trial_has_the_name_of_a_scenario() -> None:
    names = [t.name for t in TRIALS] + [s.name for s in scenarios(FULL)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: str(trial.name))
def test_a_trial_is_judged_by_metrics_of_its_own(trial: Trial) -> None:
    keys = {metric.key for metric in trial.metrics}
    assert {key.partition(".")[0] for key in keys} == {trial.name}
    budgets = budgets_of(trial.name)
    assert budgets and {budget.key for budget in budgets} <= keys
    assert set(trial.programs) <= set(NAMES)


def test_every_budget_is_that_of_a_trial() -> None:
    judged = [budget for trial in TRIALS for budget in budgets_of(trial.name)]
    assert sorted(b.key for b in judged) == sorted(b.key for b in TRIAL_BUDGETS)


def test_h2load_tells_rate_and_latency() -> None:
    said = parse_h2load(H2LOAD.format(30000, 0))
    assert said == {"requests": 30000, "rate": 24000, "mean_ms": 2.6}


@pytest.mark.parametrize("text", [H2LOAD.format(29999, 1), "h2load: no such host"])
def test_a_load_of_which_some_failed_gives_no_figures(text: str) -> None:
    with pytest.raises(MeasureError):
        parse_h2load(text)


def test_what_is_held_is_the_sum_of_its_gauges() -> None:
    page = (
        "# HELP smg_admission_inflight Permits held\nsmg_admission_inflight 2.0\n"
        "smg_admission_queue_depth 1.0\nsmg_http_connections_active 4.0\nsmg_other 9\n"
    )
    assert held(page) == 7
    with pytest.raises(MeasureError):
        held("smg_other 9\n")


def test_strays_are_other_answers_and_none() -> None:
    said = {"status_200": 9.0, "status_429": 3.0, "status_503": 1.0}
    assert strays({**said, "unanswered": 0.0, "lost": 0.0}) == 0
    assert strays({**said, "status_500": 2.0, "unanswered": 1.0, "lost": 1.0}) == 4


class Unfit:
    """A trial that cannot take place."""

    name = "unfit"
    title = "Nothing."
    programs = ("ours",)
    rounds = 1
    metrics: tuple[Metric, ...] = ()

    def __init__(self, error: Exception) -> None:
        self.error = error

    def measure(self, stage: Stage, program: Program) -> dict[str, float]:
        raise self.error


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, tmp_path, 1, None, None, Toolbox((), (), None, None))


def test_a_skipped_trial_says_why_and_is_no_failure(stage: Stage) -> None:
    (outcome,) = run_trials(stage, [Unfit(Skipped("no such flag"))], [OURS], None)
    assert not outcome.run.results.faults
    assert "Skipped: no such flag." in outcome.section()


def test_a_failed_trial_is_a_fault_of_its_program(stage: Stage) -> None:
    (outcome,) = run_trials(stage, [Unfit(MeasureError("no port"))], [OURS], None)
    assert outcome.run.results.faults_of("ours") == ["unfit: no port"]
    assert "- ours: unfit: no port" in outcome.section()
