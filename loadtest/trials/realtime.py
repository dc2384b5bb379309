"""Realtime sessions: what a relayed message costs, and an idle session."""

import http.client
import json
import time
from dataclasses import dataclass

from loadtest import procfs
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.scenarios.scenario import Meter
from loadtest.stage import (
    MeasureError,
    Stage,
    Target,
    running,
    running_python_worker,
)
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import get, tool

TEXT_BYTES, AUDIO_BYTES = 300, 4096
CONNS = 100
# Messages a second of all sessions, both ways: few and some. Busy is as many as go.
CALM, STEADY = 5_000, 12_000
AUDIO_CONNS, AUDIO_A_SECOND = 500, 50
IDLE = 1000
SECS, WARM_UP_SECS = 4.0, 1.0
OPEN_SECS = 30
SETTLE_SECS = 0.5
_LABEL = b'{"labels":{"realtime":"true"}}'


def label_worker(port: int) -> None:
    """Say to a gateway that its worker takes realtime sessions."""
    listed = json.loads(get(port, "/workers"))["workers"]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        path = f"/workers/{listed[0]['id']}"
        headers = {"Content-Type": "application/json"}
        connection.request("PATCH", path, _LABEL, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise MeasureError(f"PATCH {path}: {error}") from error
    finally:
        connection.close()
    if status >= 300:
        raise MeasureError(f"PATCH {path}: {status}")
    time.sleep(SETTLE_SECS)  # the original takes it up in the background


@dataclass(frozen=True, slots=True)
class Load:
    """Sessions that talk at a rate, and the name of what is found of them."""

    name: str
    conns: int
    a_second: float  # messages a second on each session, both ways; 0: busy
    size: int

    def figures(self, stage: Stage, target: Target) -> Figures:
        """Talk for the set time; what a message cost, and how long a round took."""
        argv = tool(stage, "realtime", target.port, "--conns", str(self.conns))
        rate = ["--a-second", str(self.a_second / 2)] if self.a_second else ["--busy"]
        argv += [*rate, "--bytes", str(self.size)]
        argv += ["--seconds", str(SECS), "--warmup", str(WARM_UP_SECS)]
        meter = Meter(target)
        with LoadTool(stage, argv) as client:
            client.wait_for("begin", WARM_UP_SECS + OPEN_SECS)
            meter.start()
            said = client.wait_for("end", SECS + 10)
            cost = meter.stop(self.name, said["messages"])
        if said["open"] < self.conns or said["errors"] or not said["messages"]:
            raise MeasureError(f"{said['errors']:.0f} of {self.conns} sessions broke")
        return {
            f"{self.name}.rate": said["messages"] / said["seconds"],
            f"{self.name}.p50": said["round_p50_us"] / 1000,
            f"{self.name}.p99": said["round_p99_us"] / 1000,
            f"{self.name}.lost": said["lost"] + said["reordered"],
            **cost,
        }


LOADS = (
    Load("realtime.calm", CONNS, CALM / CONNS, TEXT_BYTES),
    Load("realtime.steady", CONNS, STEADY / CONNS, TEXT_BYTES),
    Load("realtime.busy", CONNS, 0, TEXT_BYTES),
    Load("realtime.audio", AUDIO_CONNS, AUDIO_A_SECOND, AUDIO_BYTES),
)


def _metrics() -> tuple[Metric, ...]:
    calm, steady = f"{CALM // 1000}k/s", f"{STEADY // 1000}k/s"
    return (
        Metric("realtime.idle", f"RSS growth, {IDLE:,} idle sessions, MiB", 1),
        Metric("realtime.calm.cpu", f"CPU per message, {calm}, us", 1),
        Metric("realtime.calm.p99", f"There and back, {calm}, p99, ms", 2),
        Metric("realtime.steady.cpu", f"CPU per message, {steady}, us", 1),
        Metric("realtime.steady.p99", f"There and back, {steady}, p99, ms", 2),
        Metric("realtime.busy.cpu", "CPU per message, busy, us", 1),
        Metric("realtime.busy.rate", "Messages/s, busy"),
        Metric("realtime.audio.cpu", "Audio: CPU per message, us", 1),
        Metric("realtime.audio.rate", "Audio: messages/s"),
        Metric("realtime.audio.p50", "Audio: there and back, p50, ms", 2),
        Metric("realtime.audio.p99", "Audio: there and back, p99, ms", 2),
        Metric("realtime.audio.lost", "Audio: lost or reordered", 0, Pick.MOST),
    )


@dataclass(frozen=True, slots=True)
class Realtime:
    """Idle sessions, then small messages at three rates, then audio both ways."""

    name: str = "realtime"
    title: str = (
        f"{IDLE:,} silent sessions; {CONNS} sessions with messages of {TEXT_BYTES} "
        f"bytes, {CALM:,} and {STEADY:,} a second of all, both ways together, then "
        "busy, each with the next as soon as one is answered; "
        f"{AUDIO_CONNS} sessions with {AUDIO_A_SECOND} of {AUDIO_BYTES} bytes a second "
        "each, both ways together. The worker answers each message with one, so there "
        "and back is twice through the gateway."
    )
    # Without a proxy, to tell what is the worker's and the clients' own; and those
    # that look at no frame, to tell what is the kernel's.
    programs: tuple[str, ...] = ("direct", "ours", "smg", "nginx", "haproxy")
    rounds: int = 3
    metrics: tuple[Metric, ...] = _metrics()

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round of every load on one start."""
        with (
            running_python_worker(stage, "realtime", "--serve") as worker_port,
            running(stage, program, worker_port) as target,
        ):
            if program.name in ("ours", "smg"):
                label_worker(target.port)
            figures = self._idle(stage, target)
            for load in LOADS:
                figures |= load.figures(stage, target)
        return figures

    def _idle(self, stage: Stage, target: Target) -> Figures:
        """Growth by sessions in which nothing was said."""
        if target.pid is None:
            return {}
        self._held_rss_kib(stage, target, 16)  # loads what is loaded on first use
        before = procfs.memory_kib(target.pid, "VmRSS")
        held = self._held_rss_kib(stage, target, IDLE)
        return {"realtime.idle": (held - before) / 1024}

    def _held_rss_kib(self, stage: Stage, target: Target, conns: int) -> int:
        argv = tool(stage, "realtime", target.port, "--conns", str(conns))
        with LoadTool(stage, argv) as client:
            said = client.wait_for("end", OPEN_SECS)
            time.sleep(SETTLE_SECS)
            held = procfs.memory_kib(target.pid, "VmRSS") if target.pid else 0
        if said["open"] < conns:
            raise MeasureError(f"{said['open']:.0f} of {conns} sessions opened")
        return held
