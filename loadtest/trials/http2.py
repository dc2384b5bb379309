"""What a request and an event cost over HTTP/2 without TLS, beside the original."""

import re
import shutil
import subprocess
from dataclasses import dataclass

from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.scenarios.scenario import Meter
from loadtest.stage import (
    MeasureError,
    Stage,
    Target,
    pinned,
    running,
    running_own_worker,
)
from loadtest.stats import Metric
from loadtest.tools.buffered import BODY
from loadtest.trials.trial import Skipped, tool

CONNS = 4
STREAMS_A_CONN = 16
REQUESTS = 30_000
WARM_UP_REQUESTS = 3_000
EVENT_STREAMS_A_CONN = 25
EVENT_SECS = 4.0
EVENT_WARM_UP_SECS = 1.0
H2LOAD_SECS = 40


def parse_h2load(text: str) -> Figures:
    """What h2load says at its end. Raises MeasureError when it is not all well."""
    finished = re.search(r"finished in .*?, ([\d.]+) req/s", text)
    counts = re.search(
        r"requests: (\d+) total, .* (\d+) succeeded, (\d+) failed, (\d+) errored", text
    )
    mean = re.search(r"time for request:\s+\S+\s+\S+\s+([\d.]+)(us|ms|s)", text)
    if finished is None or counts is None or mean is None:
        raise MeasureError("h2load said nothing that is understood")
    total, succeeded = int(counts[1]), int(counts[2])
    if succeeded != total:
        raise MeasureError(f"{total - succeeded} of {total} requests failed")
    unit_ms = {"us": 0.001, "ms": 1.0, "s": 1000.0}[mean[2]]
    return {
        "requests": float(total),
        "rate": float(finished[1]),
        "mean_ms": float(mean[1]) * unit_ms,
    }


@dataclass(frozen=True, slots=True)
class Http2:
    """A closed loop of buffered requests, then paced streams, on four connections."""

    name: str = "http2"
    title: str = (
        f"{CONNS} connections, {STREAMS_A_CONN} buffered requests at once on each; "
        f"then {EVENT_STREAMS_A_CONN} streams on each, an event every 20 ms."
    )
    programs: tuple[str, ...] = ("ours", "smg")
    rounds: int = 3
    metrics: tuple[Metric, ...] = (
        Metric("http2.cpu", "CPU per buffered request, us", 1),
        Metric("http2.rate", "Buffered requests/s"),
        Metric("http2.mean", "Buffered: mean latency, ms", 2),
        Metric("http2.event_cpu", "CPU per event, us", 2),
        Metric("http2.event_rate", "Events/s"),
        Metric("http2.event_p50", "Added to an event, p50, ms", 2),
        Metric("http2.event_p99", "Added to an event, p99, ms", 2),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round of both kinds of load on one start."""
        h2load = shutil.which("h2load")
        if h2load is None:
            raise Skipped("h2load is not installed")
        with (
            running_own_worker(stage) as worker_port,
            running(stage, program, worker_port) as target,
        ):
            return self._buffered(stage, target, h2load) | self._events(stage, target)

    def _buffered(self, stage: Stage, target: Target, h2load: str) -> Figures:
        self._load(stage, target, h2load, WARM_UP_REQUESTS)
        meter = Meter(target)
        meter.start()
        said = self._load(stage, target, h2load, REQUESTS)
        cost = meter.stop("http2", said["requests"])
        return {
            "http2.rate": said["rate"],
            "http2.mean": said["mean_ms"],
            "http2.cpu": cost["http2.cpu"],
        }

    def _load(
        self, stage: Stage, target: Target, h2load: str, requests: int
    ) -> Figures:
        body = stage.folder / "chat.json"
        body.write_bytes(BODY)
        url = f"http://127.0.0.1:{target.port}/v1/chat/completions"
        argv = [h2load, "-t1", f"-c{CONNS}", f"-m{STREAMS_A_CONN}", f"-n{requests}"]
        argv += ["-d", str(body), "-H", "content-type: application/json", url]
        try:
            done = subprocess.run(
                argv,
                capture_output=True,
                text=True,
                timeout=H2LOAD_SECS,
                preexec_fn=pinned(stage.tool_cores),
            )
        except subprocess.TimeoutExpired:
            raise MeasureError(f"h2load ran over {H2LOAD_SECS} s") from None
        return parse_h2load(done.stdout)

    def _events(self, stage: Stage, target: Target) -> Figures:
        argv = tool(stage, "h2streams", target.port, "--conns", str(CONNS))
        argv += ["--streams", str(EVENT_STREAMS_A_CONN)]
        argv += ["--seconds", str(EVENT_SECS), "--warmup", str(EVENT_WARM_UP_SECS)]
        meter = Meter(target)
        with LoadTool(stage, argv) as client:
            client.wait_for("begin", EVENT_WARM_UP_SECS + 20)
            meter.start()
            said = client.wait_for("end", EVENT_SECS + 10)
            cost = meter.stop("http2", said["events"])
        if said["errors"] or not said["events"]:
            raise MeasureError(f"{said['errors']:.0f} events or streams were lost")
        return {
            "http2.event_cpu": cost["http2.cpu"],
            "http2.event_rate": said["events"] / said["seconds"],
            "http2.event_p50": said["added_p50_us"] / 1000,
            "http2.event_p99": said["added_p99_us"] / 1000,
        }
