"""The order of a run: who is started when, and whose turn it is."""

import time
from collections.abc import Sequence
from contextlib import ExitStack

from loadtest.loadtool import Figures
from loadtest.programs import Program
from loadtest.results import Results
from loadtest.scenarios.scenario import Scenario
from loadtest.stage import MeasureError, Stage, Target, running, running_worker
from loadtest.stats import Metric


class Progress:
    """One line a step, with the time since the start of the run."""

    __slots__ = ("_total", "_step", "_start")

    def __init__(self, total: int) -> None:
        self._total = total
        self._step = 0
        self._start = time.monotonic()

    def say(self, what: str, outcome: str) -> None:
        """Tell that a step is over."""
        self._step += 1
        minutes, secs = divmod(int(time.monotonic() - self._start), 60)
        head = f"[{self._step:3}/{self._total}] {minutes}:{secs:02}"
        print(f"{head}  {what:32} {outcome}", flush=True)


def brief(metrics: Sequence[Metric], figures: Figures) -> str:
    """The first few figures of a round, for its progress line."""
    shown = [metric for metric in metrics if metric.key in figures]
    return ", ".join(
        f"{metric.key.partition('.')[2]} {figures[metric.key]:.{metric.digits}f}"
        for metric in shown[:4]
    )


def rotated(targets: Sequence[Target], by: int) -> list[Target]:
    """The same targets, another one first, so that none always follows the same."""
    split = by % len(targets) if targets else 0
    return [*targets[split:], *targets[:split]]


class Rounds:
    """Runs scenarios on programs and gathers what they give."""

    __slots__ = ("_stage", "_rounds", "_results", "_progress")

    def __init__(self, stage: Stage, rounds: int, steps: int, results: Results) -> None:
        self._stage = stage
        self._rounds = rounds
        self._results = results
        self._progress = Progress(steps * rounds)

    def run_resident(
        self, scenarios: Sequence[Scenario], programs: Sequence[Program]
    ) -> None:
        """The scenarios of one policy, which share one start of each program."""
        (policy,) = {scenario.policy for scenario in scenarios}
        with ExitStack() as stack:
            stack.enter_context(running_worker(self._stage, is_silent=False))
            targets = []
            for program in programs:
                port = self._stage.worker_port
                target = self._start(stack, program, port, policy)
                if target is not None:
                    targets.append(target)
            for scenario in scenarios:
                warm = [t for t in targets if self._warm_up(scenario, t)]
                for turn in range(self._rounds):
                    for target in rotated(warm, turn):
                        self._measure(scenario, target, turn)

    def run_fresh(self, scenario: Scenario, programs: Sequence[Program]) -> None:
        """A scenario that wants each program newly started, round by round."""
        with running_worker(self._stage, is_silent=True):
            for turn in range(self._rounds):
                for program in programs:
                    if program.command is None:
                        continue
                    with ExitStack() as stack:
                        port = self._stage.silent_port
                        target = self._start(stack, program, port, scenario.policy)
                        if target is not None and self._warm_up(scenario, target):
                            self._measure(scenario, target, turn)

    def _start(
        self, stack: ExitStack, program: Program, port: int, policy: str
    ) -> Target | None:
        started = running(self._stage, program, port, policy=policy)
        try:
            return stack.enter_context(started)
        except MeasureError as error:
            self._fail(program.name, f"start: {error}")
            return None

    def _warm_up(self, scenario: Scenario, target: Target) -> bool:
        try:
            scenario.warm_up(self._stage, target)
        except MeasureError as error:
            self._fail(target.name, f"{scenario.name}, warm-up: {error}")
            return False
        return True

    def _measure(self, scenario: Scenario, target: Target, turn: int) -> None:
        what = f"{scenario.name} {turn + 1}/{self._rounds} {target.name}"
        try:
            figures = scenario.measure(self._stage, target)
        except MeasureError as error:
            self._progress.say(what, f"failed: {error}")
            self._results.add_fault(target.name, f"{scenario.name}: {error}")
            return
        self._results.add(target.name, figures)
        self._progress.say(what, brief(scenario.metrics, figures))

    def _fail(self, name: str, text: str) -> None:
        print(f"{name}: {text}", flush=True)
        self._results.add_fault(name, text)
