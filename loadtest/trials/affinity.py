"""How well prompts find their caches, and how evenly, beside the original."""

from dataclasses import dataclass

from loadtest.conversations import CONVERSATIONS, REPORT_SECS, WORKERS
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Place, Program
from loadtest.stage import Stage, running_at
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import tool

SPEED = 6
SEND_SECS = 60
POLICIES = ("cache_aware", "round_robin")
FLAGS = ("--load-monitor-interval", str(round(REPORT_SECS / SPEED)))


@dataclass(frozen=True, slots=True)
class Affinity:
    """The same trace under cache_aware and, to compare, under round_robin."""

    name: str = "affinity"
    title: str = (
        f"{CONVERSATIONS:,} conversations of several turns with shared system prompts, "
        f"sent {SPEED} times as fast as they are held to {WORKERS} workers with prefix "
        "caches, under cache_aware and under round_robin."
    )
    programs: tuple[str, ...] = ("ours", "smg")
    rounds: int = 2
    metrics: tuple[Metric, ...] = (
        Metric("affinity.cache_aware_cached", "Tokens cached, cache_aware, %", 1),
        Metric("affinity.round_robin_cached", "Tokens cached, round_robin, %", 1),
        Metric("affinity.gain", "Points more", 1),
        Metric("affinity.cache_aware_busiest", "Busiest's requests, cache_aware", 2),
        Metric("affinity.round_robin_busiest", "Busiest's requests, round_robin", 2),
        Metric("affinity.cache_aware_work", "Busiest's prefill, cache_aware", 2),
        Metric("affinity.round_robin_work", "Busiest's prefill, round_robin", 2),
        Metric("affinity.cache_aware_mean", "Mean latency, cache_aware, ms", 1),
        Metric("affinity.round_robin_mean", "Mean latency, round_robin, ms", 1),
        Metric("affinity.cache_aware_p99", "Latency p99, cache_aware, ms", 1),
        Metric("affinity.round_robin_p99", "Latency p99, round_robin, ms", 1),
        Metric("affinity.failed", "Answers other than 200, or none", 0, Pick.MOST),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round of both policies, a start each."""
        found: Figures = {"affinity.failed": 0.0}
        for policy in POLICIES:
            said = self._talk(stage, program, policy)
            found["affinity.failed"] += said["failed"]
            found[f"affinity.{policy}_cached"] = said["cached_percent"]
            found[f"affinity.{policy}_busiest"] = said["busiest_requests"]
            found[f"affinity.{policy}_work"] = said["busiest_work"]
            found[f"affinity.{policy}_mean"] = said["wait_mean_ms"]
            found[f"affinity.{policy}_p99"] = said["wait_p99_ms"]
        aware, blind = (found[f"affinity.{policy}_cached"] for policy in POLICIES)
        return found | {"affinity.gain": aware - blind}

    def _talk(self, stage: Stage, program: Program, policy: str) -> Figures:
        port = stage.port_of(program)
        ports = stage.fleet_ports(WORKERS)
        argv = tool(stage, "talks", port, str(ports[0]), "--speed", str(SPEED))
        with LoadTool(stage, argv) as talks:
            talks.wait_for("ready", 10)
            place = Place(port, port + 1, ports, stage.folder, policy)
            with running_at(stage, program, place, FLAGS):
                return talks.wait_for("end", SEND_SECS + 30)
