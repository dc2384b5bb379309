"""`python -m loadtest.admission`: a crowd in front of a capped gateway.

No figure beside others' figures, but a promise kept or not: the worker never has more
than the cap, whoever asks is answered 200, 429 or 503, nobody who came later is served
much earlier, and in the end nothing is held.
"""

import argparse
import re
import sys
import urllib.request
from pathlib import Path

from loadtest.bench import ROOT, WORK, raise_file_limit
from loadtest.loadtool import Figures, LoadTool
from loadtest.procfs import cpu_us, memory_kib
from loadtest.programs import Place, Program
from loadtest.stage import MeasureError, Stage, running, split_cores
from loadtest.toolbox import Toolbox

CLIENTS, CAP, QUEUE, TIMEOUT_SECS = 2000, 100, 500, 1
GAUGES = re.compile(r"^(smg_\w+_(?:inflight|queue_depth|active))(?:{.*})? (\S+)$", re.M)
# Requests of one turn of the event loop have no order; more than this is no turn.
OVERTAKEN = 100
ANSWERS = {"status_200", "status_429", "status_503"}


def capped(place: Place) -> list[str]:
    """The gateway whose admission is looked at."""
    return [
        *(sys.executable, "-m", "smgproxy", "launch", "--host", "127.0.0.1"),
        *("--port", str(place.port), "--prometheus-port", str(place.metrics_port)),
        *("--worker-urls", f"http://127.0.0.1:{place.worker_port}"),
        *("--max-concurrent-requests", str(CAP), "--queue-size", str(QUEUE)),
        *("--queue-timeout-secs", str(TIMEOUT_SECS), "--log-level", "error"),
    ]


def gauges(port: int) -> dict[str, float]:
    """What the gateway says it holds."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as page:
        found = GAUGES.findall(page.read().decode())
    return {name: float(value) for name, value in found}


def run(stage: Stage, secs: float) -> tuple[Figures, dict[str, float]]:
    """One run; what the crowd saw, and what the gateway holds afterwards."""
    program = Program("ours", "", capped, "/health", "")
    port = stage.first_port + 10 + 2 * program.rank
    argv = [sys.executable, "-m", "loadtest.tools.crowd", str(port)]
    argv += [str(stage.worker_port), "--clients", str(CLIENTS), "--seconds", str(secs)]
    with LoadTool(stage, argv) as tool:
        tool.wait_for("ready", 10)
        with running(stage, program, stage.worker_port) as target:
            assert target.pid is not None
            began = cpu_us(target.pid)
            said = tool.wait_for("end", secs + 60)
            said["cpu_us_per_request"] = (cpu_us(target.pid) - began) / said["asked"]
            said["peak_mib"] = memory_kib(target.pid, "VmHWM") / 1024
            return said, gauges(port + 1)


def faults(said: Figures, held: dict[str, float]) -> list[str]:
    """The promises that were not kept."""
    others = {key for key in said if key.startswith("status_")} - ANSWERS
    return [
        text
        for text, is_broken in {
            f"the worker had {said['worker_most']:.0f} requests at a time": said[
                "worker_most"
            ]
            > CAP,
            f"answers other than 200, 429 and 503: {sorted(others)}": bool(others),
            f"{said['unanswered']:.0f} requests unanswered": said["unanswered"] > 0,
            f"{said['lost']:.0f} connections lost": said["lost"] > 0,
            f"served {said['overtaken']:.0f} places late": said["overtaken"]
            > OVERTAKEN,
            f"still held: {held}": not held or any(held.values()),
        }.items()
        if is_broken
    ]


def main() -> int:
    """The whole run. Ends with 1 when a promise was not kept."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.admission")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--first-port", type=int, default=32000)
    chosen = parser.parse_args()
    raise_file_limit()
    folder: Path = WORK / "run"
    folder.mkdir(parents=True, exist_ok=True)
    no_tools = Toolbox((), (), None, None)
    stage = Stage(ROOT, folder, chosen.first_port, *split_cores(True), no_tools)
    try:
        said, held = run(stage, chosen.seconds)
    except MeasureError as error:
        print(f"no figures: {error}", file=sys.stderr)
        return 1
    for key, value in {**said, **held}.items():
        print(f"{key:32} {value:12.1f}")
    broken = faults(said, held)
    for text in broken:
        print(f"NOT KEPT: {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
