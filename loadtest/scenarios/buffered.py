"""Small chat completions, answered whole, on a few busy connections."""

from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import ROUND_ROBIN
from loadtest.scenarios.scenario import Meter
from loadtest.stage import MeasureError, Stage, Target
from loadtest.stats import Metric, Pick


class Buffered:
    """A closed loop: each connection asks again when it is answered."""

    __slots__ = ("seconds", "policy", "name", "is_fresh", "metrics")

    def __init__(self, seconds: float, policy: str = ROUND_ROBIN) -> None:
        self.seconds = seconds
        self.policy = policy
        is_usual = policy == ROUND_ROBIN
        self.name = "buffered" if is_usual else f"buffered-{policy}"
        self.is_fresh = False
        label = "Buffered: " if is_usual else f"Buffered, {policy}: "
        self.metrics = (
            Metric(f"{self.name}.cpu", label + "CPU per request, us", 1),
            Metric(f"{self.name}.rate", label + "requests/s"),
            Metric(f"{self.name}.p50", label + "latency p50, ms", 2),
            Metric(f"{self.name}.p99", label + "latency p99, ms", 2),
            Metric(f"{self.name}.peak", label + "peak RSS, MiB", 1, Pick.MOST),
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
            f"{self.name}.rate": said["requests"] / said["seconds"],
            f"{self.name}.p50": said["latency_p50_us"] / 1000,
            f"{self.name}.p99": said["latency_p99_us"] / 1000,
            **meter.stop(self.name, said["requests"]),
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
