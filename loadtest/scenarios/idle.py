"""What a stream costs in memory while nothing is said on it."""

import time
from dataclasses import dataclass

from loadtest import procfs
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import ROUND_ROBIN
from loadtest.stage import MeasureError, Stage, Target
from loadtest.stats import Metric

CONNS = 1000
WARM_UP_CONNS = 16
HEADS_SECS = 10
# Long enough for allocations that follow the heads; short beside a keep-alive.
SETTLE_SECS = 0.5


@dataclass(frozen=True, slots=True)
class Idle:
    """A thousand streams whose worker has sent a head and then nothing.

    On a fresh start, since memory that earlier load has freed would be used
    again and hide the growth.
    """

    name: str = "idle"
    is_fresh: bool = True
    policy: str = ROUND_ROBIN
    metrics: tuple[Metric, ...] = (
        Metric("idle.rss", "RSS per idle stream, KiB", 1),
        Metric("idle.start", "RSS before the first of them, MiB", 1),
    )

    def warm_up(self, stage: Stage, target: Target) -> None:
        """A few streams, so that code loaded on first use is in memory."""
        self._held_rss_kib(stage, target, WARM_UP_CONNS)

    def measure(self, stage: Stage, target: Target) -> Figures:
        """RSS with all streams open, less RSS before, by stream."""
        if target.pid is None:
            return {}
        before = procfs.memory_kib(target.pid, "VmRSS")
        held = self._held_rss_kib(stage, target, CONNS)
        return {"idle.rss": (held - before) / CONNS, "idle.start": before / 1024}

    def _held_rss_kib(self, stage: Stage, target: Target, conns: int) -> int:
        argv = [*stage.toolbox.streams, str(target.port), "--conns", str(conns)]
        argv += ["--mode", "hold", "--seconds", str(HEADS_SECS)]
        with LoadTool(stage, argv) as tool:
            said = tool.wait_for("end", HEADS_SECS + 20)
            time.sleep(SETTLE_SECS)
            held = procfs.memory_kib(target.pid, "VmRSS") if target.pid else 0
        if said["heads"] < conns:
            raise MeasureError(f"{said['heads']:.0f} of {conns} streams got a head")
        return held
