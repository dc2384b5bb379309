"""A connection on which thousands of streams were taken back still works."""

import time
from dataclasses import dataclass

from loadtest import procfs
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.stage import Stage, running, running_own_worker
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import OURS_ALONE, pid_of, tool, warm_up, worker_state

RESETS = 5000
ANSWER_MIB = 10
RESETS_SECS = 40
SETTLE_SECS = 0.5


@dataclass(frozen=True, slots=True)
class Resets:
    """Streams reset within uploads and answers, then one large answer."""

    name: str = "resets"
    title: str = (
        f"One h2c connection resets {RESETS:,} streams, a third each within a buffered "
        f"upload, a streamed one and an answer, then takes {ANSWER_MIB} MiB."
    )
    programs: tuple[str, ...] = OURS_ALONE
    rounds: int = 1
    metrics: tuple[Metric, ...] = (
        Metric("resets.count", "Streams reset", 0, Pick.LEAST),
        Metric("resets.answer", "Answer afterwards, MiB", 1, Pick.LEAST),
        Metric("resets.left", "Streams the worker still runs", 0, Pick.MOST),
        Metric("resets.rss", "RSS growth, MiB", 1, Pick.MOST),
        Metric("resets.secs", "Time, s", 1, Pick.MOST),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round."""
        with (
            running_own_worker(stage, "--big-mib", str(ANSWER_MIB)) as worker_port,
            running(stage, program, worker_port) as target,
        ):
            warm_up(target)
            before = procfs.memory_kib(pid_of(target), "VmRSS")
            argv = tool(stage, "resets", target.port, "--resets", str(RESETS))
            with LoadTool(stage, argv) as client:
                said = client.wait_for("end", RESETS_SECS)
                time.sleep(SETTLE_SECS)
                left = worker_state(worker_port)["running"]
                after = procfs.memory_kib(pid_of(target), "VmRSS")
        return {
            "resets.count": said["resets"],
            "resets.answer": said["bytes"] / 2**20,
            "resets.left": left,
            "resets.rss": (after - before) / 1024,
            "resets.secs": said["seconds"],
        }
