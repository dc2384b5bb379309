"""What a scenario is, and how the cost of one stretch of load is taken."""

from typing import Protocol

from loadtest import procfs
from loadtest.loadtool import Figures
from loadtest.stage import Stage, Target
from loadtest.stats import Metric


class Scenario(Protocol):
    """One kind of load. `measure` is one round on one program.

    A fresh scenario gets a newly started program in front of the silent worker
    for each round; the others of one policy share one start of each program.
    """

    @property
    def name(self) -> str:
        """A short name for the progress lines and for --scenarios."""

    @property
    def is_fresh(self) -> bool:
        """Whether each round needs a newly started program."""

    @property
    def policy(self) -> str:
        """The policy to start with; under another than the usual one not all run."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The lines that it adds to the table."""

    def warm_up(self, stage: Stage, target: Target) -> None:
        """Bring a program to its steady state; called before its first round."""

    def measure(self, stage: Stage, target: Target) -> Figures:
        """One round: a value for each metric that can be had of this target."""


class Meter:
    """CPU time and peak memory of a target between `start` and `stop`."""

    __slots__ = ("_pid", "_cpu_us")

    def __init__(self, target: Target) -> None:
        self._pid = target.pid
        self._cpu_us = 0.0

    def start(self) -> None:
        """Forget the past peak, and note the CPU time so far."""
        if self._pid is not None:
            procfs.reset_peak(self._pid)
            self._cpu_us = procfs.cpu_us(self._pid)

    def stop(self, prefix: str, units: float) -> Figures:
        """CPU microseconds per unit of work and peak MiB, where there is a pid."""
        if self._pid is None or not units:
            return {}
        spent = procfs.cpu_us(self._pid) - self._cpu_us
        peak = procfs.memory_kib(self._pid, "VmHWM")
        return {f"{prefix}.cpu": spent / units, f"{prefix}.peak": peak / 1024}
