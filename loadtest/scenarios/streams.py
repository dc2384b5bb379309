"""Streamed chat completions, paced as an engine paces them."""

from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import ROUND_ROBIN
from loadtest.scenarios.scenario import Meter
from loadtest.stage import MeasureError, Stage, Target
from loadtest.stats import Metric, Pick

WARM_UP_SECS = 1.0


class Streams:
    """A fixed number of streams at any time, one event each every 20 ms."""

    __slots__ = ("conns", "seconds", "policy", "name", "is_fresh", "metrics")

    def __init__(self, conns: int, seconds: float) -> None:
        self.conns = conns
        self.seconds = seconds
        self.policy = ROUND_ROBIN
        self.name = f"streams{conns}"
        self.is_fresh = False
        label = f"{conns} streams: "
        self.metrics = (
            Metric(f"{self.name}.cpu", label + "CPU per event, us", 2),
            Metric(f"{self.name}.p50", label + "added p50, ms", 2),
            Metric(f"{self.name}.p99", label + "added p99, ms", 2),
            Metric(f"{self.name}.p999", label + "added p99.9, ms", 2),
            Metric(f"{self.name}.ttfb50", label + "first byte p50, ms", 2),
            Metric(f"{self.name}.ttfb99", label + "first byte p99, ms", 2),
            Metric(f"{self.name}.rate", label + "events/s"),
            Metric(f"{self.name}.peak", label + "peak RSS, MiB", 1, Pick.MOST),
        )

    def warm_up(self, stage: Stage, target: Target) -> None:
        """Nothing: each round warms up the streams that it measures."""

    def measure(self, stage: Stage, target: Target) -> Figures:
        """Count and time the events of the set time; take the cost beside it."""
        argv = [*stage.toolbox.streams, str(target.port), "--conns", str(self.conns)]
        argv += ["--seconds", str(self.seconds), "--warmup", str(WARM_UP_SECS)]
        meter = Meter(target)
        with LoadTool(stage, argv) as tool:
            tool.wait_for("begin", WARM_UP_SECS + 20)
            meter.start()
            said = tool.wait_for("end", self.seconds + 10)
            cost = meter.stop(self.name, said["events"])
        if said["errors"] or not said["events"]:
            raise MeasureError(f"{said['errors']:.0f} of {self.conns} streams broke")
        figures = {
            "p50": said["added_p50_us"] / 1000,
            "p99": said["added_p99_us"] / 1000,
            "p999": said["added_p999_us"] / 1000,
            "ttfb50": said["ttfb_p50_us"] / 1000,
            "ttfb99": said["ttfb_p99_us"] / 1000,
            "rate": said["events"] / said["seconds"],
        }
        return {f"{self.name}.{key}": value for key, value in figures.items()} | cost
