"""How well each policy finds prompts' caches: `python -m loadtest.affinity`.

Twenty made-up workers with prefix caches, conversations of several turns and shared
system prompts, all in one process and on a clock of its own. Prints, for each policy,
the share of prompt blocks found in the chosen worker's cache, how evenly work was
spread (the busiest worker's share of the mean), and the mean time to the first token.
"""

from __future__ import annotations

import heapq
import random
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from loadtest.prompts import Given
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions

WORKERS = 20
CONVERSATIONS = 2000
ARRIVALS_PER_SEC = 12.0
BLOCK = 64  # characters of a cache block, about sixteen tokens
CACHE_BLOCKS = 12_000
PREFILL_BLOCKS_PER_SEC = 500.0
DECODE_SECS = 1.5
REPORT_SECS = 10.0
POLICIES = (
    *("cache_aware", "prefix_hash", "consistent_hashing", "least_load"),
    *("power_of_two", "round_robin", "random"),
)


@dataclass(frozen=True)
class Turn:
    """One request of the trace."""

    at: float
    client: int
    prompt: str


def trace(seed: int = 1) -> list[Turn]:
    """Conversations that begin one after another, their turns mixed."""
    draw = random.Random(seed)

    def prose(low: int, high: int) -> str:
        return "".join(draw.choices("etaoin shrdlu", k=draw.randint(low, high)))

    systems = [prose(500, 4000) for _ in range(30)]
    turns = []
    at = 0.0
    for client in range(CONVERSATIONS):
        at += draw.expovariate(ARRIVALS_PER_SEC)
        # Few system prompts have most of the traffic.
        said = systems[int(len(systems) * draw.random() ** 3)]
        when = at
        for _ in range(draw.randint(1, 8)):
            said += " " + prose(50, 800)
            turns.append(Turn(when, client, said))
            said += " " + prose(100, 1200)
            when += DECODE_SECS + draw.expovariate(1 / 8)
    return sorted(turns, key=lambda turn: turn.at)


class Engine:
    """A worker's prefix cache, and how long its prefills take one after another."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.work = 0
        self._cache: OrderedDict[bytes, None] = OrderedDict()
        self._free_at = 0.0

    def serve(self, blocks: Sequence[bytes], now: float) -> tuple[int, float]:
        """How many leading blocks were cached, and when the first token is there."""
        cache = self._cache
        hits = 0
        for block in blocks:
            if block not in cache:
                break
            hits += 1
        for block in blocks:
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > CACHE_BLOCKS:
            cache.popitem(last=False)
        self.work += len(blocks) - hits
        secs = (len(blocks) - hits) / PREFILL_BLOCKS_PER_SEC
        self._free_at = max(now, self._free_at) + secs
        return hits, self._free_at

    def report(self, now: float) -> None:
        """Tell the gateway how busy it is."""
        waiting = max(self._free_at - now, 0.0) * PREFILL_BLOCKS_PER_SEC * BLOCK / 4
        entry = {
            "num_waiting_uncached_tokens": int(waiting),
            "num_running_reqs": self.worker.load,
            "num_waiting_reqs": 0,
            "gen_throughput": PREFILL_BLOCKS_PER_SEC * BLOCK / 4,
            "token_usage": len(self._cache) / CACHE_BLOCKS * 0.8,
        }
        self.worker.backlog.note_report({"loads": [entry]})


def blocks_of(prompt: str) -> list[bytes]:
    """The hash of each whole block, which depends on all before it."""
    running = blake2b(digest_size=8)
    hashes = []
    for begin in range(0, len(prompt) - BLOCK + 1, BLOCK):
        running.update(prompt[begin : begin + BLOCK].encode())
        hashes.append(running.copy().digest())
    return hashes


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
    busiest = max(work) * len(work) / sum(work)
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
