"""Runs trials, one after the other, and says what came of each."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest import machine, report
from loadtest.budgets import budgets_of, judge_all
from loadtest.programs import Program
from loadtest.results import Results
from loadtest.rounds import Progress, brief
from loadtest.stage import MeasureError, Stage
from loadtest.trials.trial import Skipped, Trial


@dataclass(frozen=True, slots=True)
class Outcome:
    """One trial with what it found, or why it did not take place."""

    trial: Trial
    run: report.Run
    skipped: str | None

    def section(self) -> str:
        """Its section of RESULTS.md."""
        return report.section(self.trial.name, self.trial.title, self.run, self.skipped)


Outcomes = Sequence[Outcome]


def run_trials(
    stage: Stage,
    trials: Sequence[Trial],
    programs: Sequence[Program],
    rounds: int | None,
) -> Outcomes:
    """Run every trial on those of the programs that it is about."""
    found = {program.name: program for program in programs}
    chosen = [(t, [found[n] for n in t.programs if n in found]) for t in trials]
    steps = sum(len(among) * (rounds or trial.rounds) for trial, among in chosen)
    progress = Progress(steps)
    return [
        _run(stage, trial, among, rounds or trial.rounds, progress)
        for trial, among in chosen
    ]


def _run(
    stage: Stage,
    trial: Trial,
    programs: Sequence[Program],
    rounds: int,
    progress: Progress,
) -> Outcome:
    facts = [
        (name, value)
        for name, value in machine.facts(stage)
        if name in ("Date", "CPU", "Python")
    ]
    results = Results()
    skipped = None
    for turn in range(rounds):
        for program in programs:
            what = f"{trial.name} {turn + 1}/{rounds} {program.name}"
            try:
                figures = trial.measure(stage, program)
            except Skipped as reason:
                skipped = str(reason)
                progress.say(what, f"skipped: {skipped}")
            except MeasureError as error:
                progress.say(what, f"failed: {error}")
                results.add_fault(program.name, f"{trial.name}: {error}")
            else:
                results.add(program.name, figures)
                progress.say(what, brief(trial.metrics, figures))
    metrics = {metric.key: metric for metric in trial.metrics}
    verdicts = judge_all(results, metrics, budgets_of(trial.name))
    names = [program.name for program in programs]
    run = report.Run(facts, names, programs, trial.metrics, results, verdicts)
    return Outcome(trial, run, skipped)
