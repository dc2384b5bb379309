"""Small chat completions, answered whole, on a few busy connections."""

from dataclasses import dataclass

from loadtest.loadtool import Figures, LoadTool
from loadtest.scenarios.scenario import Meter
from loadtest.stage import MeasureError, Stage, Target
from loadtest.stats import Metric, Pick


@dataclass(frozen=True, slots=True)
class Buffered:
    """A closed loop: each connection asks again when it is answered."""

    seconds: float
    name: str = "buffered"
    is_fresh: bool = False
    metrics: tuple[Metric, ...] = (
        Metric("buffered.cpu", "Buffered: CPU per request, us", 1),
        Metric("buffered.rate", "Buffered: requests/s"),
        Metric("buffered.p50", "Buffered: latency p50, ms", 2),
        Metric("buffered.p99", "Buffered: latency p99, ms", 2),
        Metric("buffered.peak", "Buffered: peak RSS, MiB", 1, Pick.MOST),
    )

    def warm_up(self, stage: Stage, target: Target) -> None:
        """One second of the same load."""
        self._load(stage, target, 1)

    def measure(self, stage: Stage, target: Target) -> Figures:
        """Load for the set time and divide the cost by the answers."""
        meter = Meter(target)
        meter.start()
        said = self._load(stage, target, self.seconds)
        return {
            "buffered.rate": said["requests"] / said["seconds"],
            "buffered.p50": said["latency_p50_us"] / 1000,
            "buffered.p99": said["latency_p99_us"] / 1000,
            **meter.stop("buffered", said["requests"]),
        }

    def _load(self, stage: Stage, target: Target, seconds: float) -> Figures:
        with LoadTool(stage, stage.toolbox.buffered(target.port, seconds)) as tool:
            said = tool.wait_for("end", seconds + 10)
        # Errors are cheap to give: a cost that counts them would flatter.
        if said["errors"] or not said["requests"]:
            raise MeasureError(
                f"{said['errors']:.0f} of {said['requests']:.0f} requests failed"
            )
        return said
