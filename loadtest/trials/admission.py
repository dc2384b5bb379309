"""Far more clients than permits: the cap holds, and all get their answer in turn."""

import re
import time
from dataclasses import dataclass

from loadtest import procfs
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.stage import MeasureError, Stage, Target, running
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import OURS_ALONE, Skipped, get, pid_of, tool

CLIENTS, CAP, QUEUE, QUEUE_SECS = 2000, 100, 500, 1
LOAD_SECS = 30
FLAGS = (
    *("--max-concurrent-requests", str(CAP)),
    *("--queue-size", str(QUEUE)),
    *("--queue-timeout-secs", str(QUEUE_SECS)),
)
GAUGES = re.compile(r"^smg_\w+_(?:inflight|queue_depth|active)(?:{.*})? (\S+)$", re.M)
SETTLE_SECS = 5.0
ANSWERS = ("status_200", "status_429", "status_503")


def held(page: str) -> float:
    """All that a metrics page says is held; MeasureError when it says nothing of it."""
    values = GAUGES.findall(page)
    if not values:
        raise MeasureError("the metrics page has no gauge of what is held")
    return sum(map(float, values))


def strays(said: Figures) -> float:
    """Answers that nobody should get, and requests that got none."""
    others = [
        count
        for name, count in said.items()
        if name.startswith("status_") and name not in ANSWERS
    ]
    return sum(others) + said["unanswered"] + said["lost"]


@dataclass(frozen=True, slots=True)
class Admission:
    """A storm against the permit limiter."""

    name: str = "admission"
    title: str = (
        f"{CLIENTS:,} clients for {LOAD_SECS} s against a cap of {CAP}, a queue of "
        f"{QUEUE} and {QUEUE_SECS} s of waiting; the worker takes 0.1 to 0.3 s each."
    )
    programs: tuple[str, ...] = OURS_ALONE
    rounds: int = 1
    metrics: tuple[Metric, ...] = (
        Metric("admission.most", "Most requests the worker had at once", 0, Pick.MOST),
        Metric("admission.served", "Answers 200"),
        Metric("admission.full", "Answers 429"),
        Metric("admission.late", "Answers 503"),
        Metric("admission.strays", "Other answers, none, broken", 0, Pick.MOST),
        Metric("admission.overtaken", "Places lost to later ones", 0, Pick.MOST),
        Metric("admission.held", "Held at the end", 0, Pick.MOST),
        Metric("admission.wait", "Wait of those served, p99, ms"),
        Metric("admission.cpu", "CPU per request, us", 1),
        Metric("admission.peak", "Peak RSS, MiB", 1, Pick.MOST),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round; skipped where the gateway does not know the flags."""
        port = stage.port_of(program)
        argv = tool(stage, "crowd", port, str(stage.own_worker_port))
        argv += ["--clients", str(CLIENTS), "--seconds", str(LOAD_SECS)]
        with LoadTool(stage, argv) as crowd:
            crowd.wait_for("ready", 10)
            try:
                with running(stage, program, stage.own_worker_port, FLAGS) as target:
                    return self._storm(crowd, target)
            except MeasureError as error:
                if "not supported" in str(error):
                    raise Skipped(f"the gateway does not start: {error}") from error
                raise

    def _storm(self, crowd: LoadTool, target: Target) -> Figures:
        began = procfs.cpu_us(pid_of(target))
        said = crowd.wait_for("end", LOAD_SECS + 20)
        spent = procfs.cpu_us(pid_of(target)) - began
        served, full, late = (said.get(name, 0.0) for name in ANSWERS)
        return {
            "admission.most": said["worker_most"],
            "admission.served": served,
            "admission.full": full,
            "admission.late": late,
            "admission.strays": strays(said),
            "admission.overtaken": said["overtaken"],
            "admission.held": self._held_at_last(target),
            "admission.wait": said["wait_p99_ms"],
            "admission.cpu": spent / said["asked"],
            "admission.peak": procfs.memory_kib(pid_of(target), "VmHWM") / 1024,
        }

    def _held_at_last(self, target: Target) -> float:
        """What is held once all have their answer, a moment granted."""
        last = time.monotonic() + SETTLE_SECS
        while True:
            left = held(get(target.metrics_port, "/metrics").decode())
            if not left or time.monotonic() > last:
                return left
            time.sleep(0.2)
