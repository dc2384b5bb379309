"""The tables: on the terminal and in RESULTS.md, the same text."""

from collections.abc import Sequence
from dataclasses import dataclass

from loadtest.budgets import Budget, Verdict
from loadtest.programs import NOT_INSTALLED, Program
from loadtest.results import Results
from loadtest.stats import Metric

ABSENT = "-"

NOTES = """\
- Each figure is the median of the rounds, with half the distance between the
  least and the most in percent; peaks, losses and gaps are the worst round. The
  rounds of all programs are interleaved.
- CPU is user and system time of the program with its threads and children, from
  /proc/PID/stat, divided by the answers or events that reached the client.
- Added time is from the worker's write of an event to the client's read of it. The
  worker writes the events of all streams in one burst every 20 ms, as an engine's
  batch does, so this holds the wait for those that come first; `direct` shows how
  much of it is the worker and the client themselves.
- `cache_aware` is the default policy of ours and of smg; the others are not compared
  under it.
- Each program has one core, and so one worker thread where it sizes itself by the
  machine; worker and clients share the others. A program that spreads over threads,
  as smg does, answers sooner with more cores (`--no-pin`), at about the same cost.
- Memory is the sum over a program's processes; a peak is VmHWM, reset before each
  measurement.
"""


@dataclass(frozen=True, slots=True)
class Run:
    """All that is reported of one run."""

    facts: Sequence[tuple[str, str]]
    names: Sequence[str]
    programs: Sequence[Program]
    metrics: Sequence[Metric]
    results: Results
    verdicts: Sequence[Verdict]


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, padded to be read as it is; the first row is its head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]

    def line(cells: Sequence[str]) -> str:
        first = cells[0].ljust(widths[0])
        rest = (c.rjust(w) for c, w in zip(cells[1:], widths[1:], strict=True))
        return "| " + " | ".join([first, *rest]) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([line(rows[0]), line(rule), *map(line, rows[1:])]) + "\n"


def cell(results: Results, program: str, metric: Metric) -> str:
    """A value with its spread, or a dash."""
    summary = results.summary(program, metric)
    if summary is None:
        return ABSENT
    text = f"{summary.value:,.{metric.digits}f}"
    return f"{text} ±{summary.spread:.0%}" if summary.spread >= 0.005 else text


def figures(run: Run) -> str:
    """One line a metric, one column a program."""
    names = [program.name for program in run.programs]
    rows = [["", *names]]
    for metric in run.metrics:
        rows.append([metric.label, *(cell(run.results, n, metric) for n in names)])
    return table(rows)


def programs(run: Run) -> str:
    """Version and setting of each program asked for, or that it is absent."""
    rows = [["Program", "Version", "Setting"]]
    found = {program.name: program for program in run.programs}
    for name in run.names:
        if name in found:
            rows.append([name, found[name].version, found[name].setting])
        else:
            rows.append([name, NOT_INSTALLED, ABSENT])
    return table(rows)


def _bound(budget: Budget) -> str:
    side = "at least" if budget.is_floor else "at most"
    return f"{side} {budget.bound:.2f}" if budget.versus else f"{side} {budget.bound:g}"


def _figure(verdict: Verdict) -> str:
    if verdict.figure is None:
        return ABSENT
    if verdict.budget.versus is None:
        return f"{verdict.figure:.1f}"
    mark = "-" if verdict.budget.is_difference else "/"
    pair = f"{verdict.measured:.2f} {mark} {verdict.compared:.2f}"
    return f"{verdict.figure:.2f} ({pair})"


def budgets(run: Run) -> str:
    """Each budget, what was measured, and the verdict."""
    rows = [["Budget of ours", "Bound", "Measured", "Verdict"]]
    for verdict in run.verdicts:
        outcome = verdict.outcome.value
        bound = _bound(verdict.budget)
        rows.append([verdict.budget.text, bound, _figure(verdict), outcome])
    return table(rows)


def faults(run: Run) -> str:
    """What went wrong, a line each."""
    told = dict.fromkeys(run.results.faults)  # the same one each round: once
    return "".join(f"- {name}: {text}\n" for name, text in told)


def section(name: str, title: str, run: Run, skipped: str | None) -> str:
    """A trial's part of RESULTS.md, its heading included."""
    facts = ", ".join(value for _, value in run.facts)
    versions = ", ".join(f"{p.name} {p.version}" for p in run.programs)
    parts = [f"## {name}\n", f"{title}\n", f"Measured {facts}; {versions}.\n"]
    if skipped is not None:
        parts.append(f"Skipped: {skipped}.\n")
    else:
        parts += [figures(run), budgets(run)]
    if run.results.faults:
        parts += ["What went wrong:\n", faults(run)]
    return "\n".join(parts)


def document(run: Run) -> str:
    """RESULTS.md, less the sections of trials."""
    parts = [
        "# Measured by `make bench`\n",
        table([["Machine", ""], *run.facts]),
        "## Programs\n",
        programs(run),
        "## Figures\n",
        figures(run),
        "## Budgets\n",
        budgets(run),
    ]
    if run.results.faults:
        parts += ["## What went wrong\n", faults(run)]
    parts += ["## How to read this\n", NOTES]
    return "\n".join(parts)
