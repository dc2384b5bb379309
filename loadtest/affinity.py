"""How well each policy finds prompts' caches: `python -m loadtest.affinity`.

Twenty made-up workers with prefix caches, conversations of several turns and shared
system prompts, all in one process and on a clock of its own; the trial `affinity` sends
the same trace through gateways. Prints, for each policy, the share of prompt blocks
found in the chosen worker's cache, how evenly work was spread (the busiest worker's
share of the mean), and the mean time to the first token.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadtest.conversations import (
    BLOCK_TOKENS,
    CACHE_BLOCKS,
    DECODE_SECS,
    PREFILL_BLOCKS_PER_SEC,
    REPORT_SECS,
    WORKERS,
    PrefixCache,
    Turn,
    blocks_of,
    busiest_share,
    trace,
)
from loadtest.prompts import Given
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions

POLICIES = (
    *("cache_aware", "prefix_hash", "consistent_hashing", "least_load"),
    *("power_of_two", "round_robin", "random"),
)


class Engine:
    """A worker's prefix cache, and how long its prefills take one after another."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.work = 0
        self._cache = PrefixCache()
        self._free_at = 0.0

    def serve(self, blocks: Sequence[bytes], now: float) -> tuple[int, float]:
        """How many leading blocks were cached, and when the first token is there."""
        hits = self._cache.take(blocks)
        self.work += len(blocks) - hits
        secs = (len(blocks) - hits) / PREFILL_BLOCKS_PER_SEC
        self._free_at = max(now, self._free_at) + secs
        return hits, self._free_at

    def report(self, now: float) -> None:
        """Tell the gateway how busy it is."""
        waiting = max(self._free_at - now, 0.0) * PREFILL_BLOCKS_PER_SEC * BLOCK_TOKENS
        entry = {
            "num_waiting_uncached_tokens": int(waiting),
            "num_running_reqs": self.worker.load,
            "num_waiting_reqs": 0,
            "gen_throughput": PREFILL_BLOCKS_PER_SEC * BLOCK_TOKENS,
            "token_usage": len(self._cache) / CACHE_BLOCKS * 0.8,
        }
        self.worker.backlog.note_report({"loads": [entry]})


class Fleet:
    """The workers, a router before them, and what is in flight."""

    def __init__(self, policy: str) -> None:
        registry = Registry()
        self.engines: dict[Worker, Engine] = {}
        for number in range(WORKERS):
            worker = Worker(f"id-{number}", f"http://10.0.0.{number}:8000")
            worker.models = [{"id": "m"}]
            worker.state = WorkerState.READY
            self.engines[worker] = Engine(worker)
            registry.add(worker)
        # The option's choices bind the command line only.
        self._router = Router(registry, RoutingOptions(policy), PolicyOptions())
        self._running: list[tuple[float, int, RoutingRequest]] = []
        self._next_report = 0.0

    def place(self, turn: Turn, number: int) -> tuple[Engine, int, int, float]:
        """Send one request: its engine, blocks cached, blocks in all, seconds."""
        now = turn.at
        while self._running and self._running[0][0] <= now:
            self._router.release(heapq.heappop(self._running)[2])
        if now >= self._next_report:
            self._next_report = now + REPORT_SECS
            for each in self.engines.values():
                each.report(now)
        headers = {b"x-forwarded-for": b"10.1.%d" % turn.client}
        request = RoutingRequest("m", headers, now, Given(turn.prompt.__str__))
        engine = self.engines[self._router.pick(request)]
        blocks = blocks_of(turn.prompt)
        hits, first_token = engine.serve(blocks, now)
        heapq.heappush(self._running, (first_token + DECODE_SECS, number, request))
        return engine, hits, len(blocks), first_token - now


@dataclass(frozen=True)
class Figures:
    """What one policy made of the trace."""

    policy: str
    hit_share: float
    busiest: float
    first_token_secs: float


def run(policy: str, turns: Sequence[Turn]) -> Figures:
    """The trace under one policy."""
    fleet = Fleet(policy)
    cached = asked = 0
    waited = 0.0
    for number, turn in enumerate(turns):
        _, hits, blocks, secs = fleet.place(turn, number)
        cached += hits
        asked += blocks
        waited += secs
    work = [engine.work for engine in fleet.engines.values()]
    busiest = busiest_share(work)
    return Figures(policy, cached / asked, busiest, waited / len(turns))


def table(turns: Sequence[Turn]) -> Iterator[str]:
    """A line for each policy."""
    yield f"{'policy':20s} {'cached':>8s} {'busiest':>8s} {'first token':>12s}"
    for policy in POLICIES:
        found = run(policy, turns)
        yield (
            f"{policy:20s} {found.hit_share:8.1%} {found.busiest:7.2f}x "
            f"{1000 * found.first_token_secs:9.0f} ms"
        )


if __name__ == "__main__":
    for line in table(trace()):
        print(line, flush=True)
