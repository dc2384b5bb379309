"""What the kernel says a program has cost: CPU time and memory, from /proc.

A program is its first process and all that it started. Children that ended and
were waited for stay counted, in their parent's cutime and cstime (proc(5)).
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICK_US = 1e6 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Stat:
    """One line of /proc/PID/stat: who it is, who started it, what it used."""

    pid: int
    parent: int
    cpu_ticks: int


def parse_stat(line: str) -> Stat:
    """Read a stat line; all threads are in it, living and ended.

    The name in brackets may itself hold blanks and brackets, so fields are
    counted from the last closing one.
    """
    pid, rest = line.split(" ", 1)
    fields = rest[rest.rindex(")") + 2 :].split()
    utime, stime, cutime, cstime = (int(field) for field in fields[11:15])
    return Stat(int(pid), int(fields[1]), utime + stime + cutime + cstime)


def parse_kib(status: str, field: str) -> int:
    """The value of one `Field:  123 kB` line of /proc/PID/status; 0 if absent."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    return 0


def family(root: int, stats: Iterable[Stat]) -> list[Stat]:
    """The root's stat and those of all its descendants."""
    known = list(stats)
    found = [stat for stat in known if stat.pid == root]
    for ancestor in found:  # grows while it is walked
        found += [stat for stat in known if stat.parent == ancestor.pid]
    return found


def read_stats() -> list[Stat]:
    """The stat of everything that runs now."""
    stats = []
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            try:
                stats.append(parse_stat((entry / "stat").read_text()))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while we looked
    return stats


def cpu_us(root: int) -> float:
    """User and system time of a program since its start, in microseconds."""
    return sum(stat.cpu_ticks for stat in family(root, read_stats())) * TICK_US


def memory_kib(root: int, field: str) -> int:
    """VmRSS or VmHWM of a program, summed over its processes.

    Pages that a parent and its children share are counted in each.
    """
    total = 0
    for stat in family(root, read_stats()):
        try:
            status = (PROC / str(stat.pid) / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += parse_kib(status, field)
    return total


def reset_peak(root: int) -> None:
    """Set VmHWM back to what is resident now (proc(5), clear_refs, 5)."""
    for stat in family(root, read_stats()):
        try:
            (PROC / str(stat.pid) / "clear_refs").write_text("5")
        except (FileNotFoundError, ProcessLookupError):
            continue
