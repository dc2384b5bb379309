"""Far more clients than permits: the cap holds, and everybody gets an answer."""

import re
import time
from dataclasses import dataclass

from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.stage import (
    MeasureError,
    Stage,
    Target,
    running,
    running_own_worker,
)
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import OURS_ALONE, Skipped, get, tool, worker_state

CLIENTS = 2000
CAP = 100
QUEUE = 500
QUEUE_SECS = 2
LOAD_SECS = 30
# Short streams: a place in the queue is reached within a second or so.
EVENTS = 10
GAUGES = ("smg_admission_inflight", "smg_admission_queue_depth")
SETTLE_SECS = 5.0
FLAGS = (
    "--max-concurrent-requests",
    str(CAP),
    "--queue-size",
    str(QUEUE),
    "--queue-timeout-secs",
    str(QUEUE_SECS),
)


def gauge_sum(page: str, names: tuple[str, ...]) -> float:
    """The values of some gauges of a metrics page, summed; MeasureError without one."""
    total = 0.0
    for name in names:
        found = re.search(rf"^{name}(?:\{{\}})? (\S+)$", page, re.MULTILINE)
        if found is None:
            raise MeasureError(f"there is no {name} on the metrics page")
        total += float(found[1])
    return total


@dataclass(frozen=True, slots=True)
class Admission:
    """A storm against the permit limiter."""

    name: str = "admission"
    title: str = (
        f"{CLIENTS:,} clients for {LOAD_SECS} s against a cap of {CAP} with a queue of "
        f"{QUEUE} and {QUEUE_SECS} s of waiting; a shed client asks again at once."
    )
    programs: tuple[str, ...] = OURS_ALONE
    rounds: int = 1
    metrics: tuple[Metric, ...] = (
        Metric("admission.most", "Most requests the worker has seen at once", 0),
        Metric("admission.served", "Answers 200", 0),
        Metric("admission.full", "Answers 429", 0),
        Metric("admission.late", "Answers 503", 0),
        Metric("admission.other", "Other answers, and broken ones", 0, Pick.MOST),
        Metric("admission.left", "Permits and places held at the end", 0, Pick.MOST),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round; skipped where the gateway does not know the flags."""
        with running_own_worker(stage, "--events", str(EVENTS)) as worker_port:
            try:
                with running(stage, program, worker_port, FLAGS) as target:
                    return self._storm(stage, target, worker_port)
            except MeasureError as error:
                if "not supported" in str(error) or "unrecognized" in str(error):
                    raise Skipped(f"the gateway does not start: {error}") from error
                raise

    def _storm(self, stage: Stage, target: Target, worker_port: int) -> Figures:
        argv = tool(stage, "crowd", target.port, "--conns", str(CLIENTS))
        argv += ["--seconds", str(LOAD_SECS)]
        with LoadTool(stage, argv) as crowd:
            said = crowd.wait_for("end", LOAD_SECS + 25)
        return {
            "admission.most": worker_state(worker_port)["most_running"],
            "admission.served": said["served"],
            "admission.full": said["shed_429"],
            "admission.late": said["shed_503"],
            "admission.other": said["other"] + said["broken"],
            "admission.left": self._held(target),
        }

    def _held(self, target: Target) -> float:
        """What is still held once the clients have left, a moment granted."""
        last = time.monotonic() + SETTLE_SECS
        while True:
            page = get(target.metrics_port, "/metrics").decode()
            held = gauge_sum(page, GAUGES)
            if not held or time.monotonic() > last:
                return held
            time.sleep(0.2)
