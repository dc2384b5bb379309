"""Do many streams all run smoothly to their end, with every event in order?"""

from dataclasses import dataclass

from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import ROUND_ROBIN
from loadtest.stage import Stage, Target
from loadtest.stats import Metric, Pick

CONNS = 512
DEADLINE_SECS = 15


@dataclass(frozen=True, slots=True)
class Stall:
    """One stream of 64 events on each of 512 connections.

    A stream is smooth when no gap between two of its events is over 500 ms, none
    is lost or out of order, and it ends with [DONE].
    """

    name: str = "stall"
    is_fresh: bool = False
    policy: str = ROUND_ROBIN
    metrics: tuple[Metric, ...] = (
        Metric("stall.smooth", f"Streams without a stall, of {CONNS}", 0, Pick.LEAST),
        Metric("stall.lost", "Events lost or reordered", 0, Pick.MOST),
        Metric("stall.gap", "Longest gap between events, ms", 0, Pick.MOST),
    )

    def warm_up(self, stage: Stage, target: Target) -> None:
        """Nothing: a cold start of so many streams is what is asked about."""

    def measure(self, stage: Stage, target: Target) -> Figures:
        """Run all streams once; what broke is in the figures."""
        argv = [*stage.toolbox.streams, str(target.port), "--conns", str(CONNS)]
        argv += ["--mode", "once", "--seconds", str(DEADLINE_SECS)]
        with LoadTool(stage, argv) as tool:
            said = tool.wait_for("end", DEADLINE_SECS + 20)
        return {
            "stall.smooth": said["smooth"],
            "stall.lost": said["lost"] + said["reordered"],
            "stall.gap": said["max_gap_ms"],
        }
