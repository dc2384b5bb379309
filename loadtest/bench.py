"""`python -m loadtest`: reads its arguments, runs all, says what came of it."""

import argparse
import resource
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from loadtest import machine, report, sections
from loadtest.budgets import ORIGINAL, OURS, Outcome, judge_all
from loadtest.install import install_missing
from loadtest.programs import NAMES, ROUND_ROBIN, Program, find
from loadtest.results import Results
from loadtest.rounds import Rounds
from loadtest.scenarios import FULL, QUICK, scenarios
from loadtest.scenarios.scenario import Scenario
from loadtest.stage import MeasureError, Stage, split_cores
from loadtest.toolbox import prepare
from loadtest.trialruns import Outcomes, run_trials
from loadtest.trials import TRIALS

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".bench"
RESULTS = ROOT / "loadtest" / "RESULTS.md"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line; unknown program or scenario names are a usage error."""
    parser = argparse.ArgumentParser(prog="python -m loadtest", description=__doc__)
    add = parser.add_argument
    add("--quick", action="store_true", help="one short round each")
    add("--rounds", type=int, help="rounds per scenario and program")
    add("--only", type=_names, default=list(NAMES), help="programs, by comma")
    add("--scenarios", type=_names, help="scenarios and trials, by comma")
    add("--all", action="store_true", help="all scenarios and all trials")
    add("--install", action="store_true", help="first fetch smg and vllm-router")
    add("--no-fail", action="store_true", help="exit 0 even if a budget is missed")
    add("--no-pin", action="store_true", help="do not bind programs to cores")
    add("--python-tools", action="store_true", help="use no cc and no wrk")
    add("--first-port", type=int, default=32000, help="of 50 loopback ports")
    add("--results", type=Path, help="file to write instead of RESULTS.md")
    chosen = parser.parse_args(argv)
    if unknown := set(chosen.only) - set(NAMES):
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    kinds = [scenario.name for scenario in scenarios(FULL)]
    trials = [trial.name for trial in TRIALS]
    if chosen.all:
        chosen.scenarios = kinds + trials
    chosen.scenarios = chosen.scenarios or kinds
    if unknown := set(chosen.scenarios) - set(kinds + trials):
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    return chosen


def results_path(chosen: argparse.Namespace) -> Path:
    """Where the report goes: a partial run leaves the full one's file alone."""
    if chosen.results is not None:
        return Path(chosen.results)
    kinds = scenarios(FULL)
    is_full = {kind.name for kind in kinds} <= set(chosen.scenarios)
    is_full = is_full and len(chosen.only) == len(NAMES)
    return RESULTS if is_full and not chosen.quick else WORK / "RESULTS.md"


def trials_path(chosen: argparse.Namespace) -> Path:
    """Where trials' sections go: each stands for itself, so one alone is kept too."""
    if chosen.results is not None:
        return Path(chosen.results)
    return WORK / "RESULTS.md" if chosen.quick else RESULTS


def raise_file_limit() -> None:
    """Let the children open as many sockets as the machine allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def measure(
    stage: Stage, programs: Sequence[Program], kinds: Sequence[Scenario], rounds: int
) -> Results:
    """Run every scenario on every program."""
    results = Results()
    fresh = [kind for kind in kinds if kind.is_fresh]
    resident = groups([kind for kind in kinds if not kind.is_fresh], programs)
    started = [program for program in programs if program.command is not None]
    steps = sum(len(group) * len(among) for group, among in resident)
    turns = Rounds(stage, rounds, steps + len(fresh) * len(started), results)
    for group, among in resident:
        turns.run_resident(group, among)
    for kind in fresh:
        turns.run_fresh(kind, started)
    return results


def groups(
    kinds: Sequence[Scenario], programs: Sequence[Program]
) -> list[tuple[list[Scenario], list[Program]]]:
    """The scenarios by their policy, with the programs that each can be run on."""
    found = []
    for policy in dict.fromkeys(kind.policy for kind in kinds):
        is_usual = policy == ROUND_ROBIN
        among = [p for p in programs if is_usual or p.name in (OURS, ORIGINAL)]
        found.append(([kind for kind in kinds if kind.policy == policy], among))
    return found


def conclude(run: report.Run, path: Path, is_lenient: bool) -> int:
    """Print the tables, write the report, and give the exit code."""
    sections.keep(path, report.document(run), {})
    for part in (report.programs, report.figures, report.budgets, report.faults):
        print(part(run))
    print(f"written to {path}")
    return judge_run(run, is_lenient)


def conclude_trials(outcomes: Outcomes, path: Path, is_lenient: bool) -> int:
    """Print the trials' sections, keep them, and give the exit code."""
    texts = {outcome.trial.name: outcome.section() for outcome in outcomes}
    sections.keep(path, None, texts)
    for text in texts.values():
        print(text)
    print(f"written to {path}")
    return max(judge_run(outcome.run, is_lenient) for outcome in outcomes)


def judge_run(run: report.Run, is_lenient: bool) -> int:
    """Say which budgets were missed and how ours failed; the exit code."""
    missed = [v.budget.text for v in run.verdicts if v.outcome is Outcome.MISSED]
    broken = run.results.faults_of(OURS)
    for text in missed:
        print(f"budget MISSED: {text}")
    for text in dict.fromkeys(broken):  # the same one each round is told once
        print(f"ours FAILED: {text}")
    return 1 if (missed or broken) and not is_lenient else 0


def main(argv: Sequence[str]) -> int:
    """The whole run. Ends with 1 when a budget is missed or ours has failed."""
    chosen = parse_arguments(argv)
    # So that the `with` statements end what was started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    raise_file_limit()
    folder = WORK / "run"
    folder.mkdir(parents=True, exist_ok=True)
    if chosen.install:
        install_missing(ROOT)
    proxy_cores, tool_cores = split_cores(not chosen.no_pin)
    toolbox = prepare(WORK / "tools", chosen.python_tools)
    stage = Stage(ROOT, folder, chosen.first_port, proxy_cores, tool_cores, toolbox)
    programs = [p for p in (find(n, ROOT) for n in NAMES if n in chosen.only) if p]
    pace = QUICK if chosen.quick else FULL
    kinds = [kind for kind in scenarios(pace) if kind.name in chosen.scenarios]
    trials = [trial for trial in TRIALS if trial.name in chosen.scenarios]
    try:
        code = run_scenarios(stage, chosen, programs, kinds) if kinds else 0
        if trials:
            rounds = 1 if chosen.quick else chosen.rounds
            outcomes = run_trials(stage, trials, programs, rounds)
            path = trials_path(chosen)
            code = max(code, conclude_trials(outcomes, path, chosen.no_fail))
    except MeasureError as error:
        print(f"no figures: the simulated worker {error}", file=sys.stderr)
        return 1
    return code


def run_scenarios(
    stage: Stage,
    chosen: argparse.Namespace,
    programs: Sequence[Program],
    kinds: Sequence[Scenario],
) -> int:
    """Run and report the scenarios that compare programs; the exit code."""
    facts = list(machine.facts(stage))
    pace = QUICK if chosen.quick else FULL
    names = [name for name in NAMES if name in chosen.only]
    results = measure(stage, programs, kinds, chosen.rounds or pace.rounds)
    metrics = [metric for kind in scenarios(pace) for metric in kind.metrics]
    verdicts = judge_all(results, {metric.key: metric for metric in metrics})
    shown = [metric for kind in kinds for metric in kind.metrics]
    run = report.Run(facts, names, programs, shown, results, verdicts)
    return conclude(run, results_path(chosen), chosen.no_fail)
