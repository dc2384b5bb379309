"""What choosing a worker costs, without any socket: `python -m loadtest.picks`.

Prints each figure beside its budget; exits 1 when one is missed. Times are of CPU, and
medians where not said otherwise, so that a busy machine does not decide; compare runs
on one machine only.
"""

from __future__ import annotations

import gc
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from statistics import median

from loadtest.prompts import Given
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.catalog import POLICIES, PolicyMaker
from smgproxy.routing.holders import HolderTree
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy
from smgproxy.routing.radix import CHARACTERS_PER_NODE, MAX_DEPTH, RadixTree
from smgproxy.routing.request import RoutingRequest

WORKERS = 8
PROMPTS = 100_000
PROMPT_CHARACTERS = 600
SAMPLES, LONG_SAMPLES = 2000, 50
PARTS = 5
BATCH = 10  # calls for each look at the clock, which is a system call
HEADERS: Mapping[bytes, bytes] = {
    b"content-type": b"application/json",
    b"x-smg-routing-key": b"conversation-0123456789",
}

# Microseconds a pick, bytes, and milliseconds of one slice of upkeep.
PICK_US = 3.0
SHORT_US, LONG_US = 12.0, 120.0
BYTES_PER_CHARACTER, BYTES_PER_NODE = 1.5, 250
SLICE_MS = 10.0


class Prompts:
    """Made-up prompts: one of fifty system prompts, then text that is seldom alike."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        letters = "abcdefghijklmnopqrstuvwxyz   "
        self._prose = "".join(self._random.choices(letters, k=1_000_000))
        self._systems = [self._cut(self._random.choice((100, 300))) for _ in range(50)]

    def _cut(self, length: int) -> str:
        begin = self._random.randrange(len(self._prose) - length)
        return self._prose[begin : begin + length]

    def next(self, length: int) -> str:
        """A prompt of so many characters."""
        number = self._random.randrange(10**8)
        return f"{self._random.choice(self._systems)} {number} {self._cut(length)}"[
            :length
        ]


def fleet() -> tuple[Worker, ...]:
    """Ready workers that reported different loads."""
    registry = Registry()
    for number in range(WORKERS):
        worker = Worker(f"id-{number}", f"http://10.0.0.{number}:8000")
        worker.models = [{"id": "m"}]
        worker.state = WorkerState.READY
        told = dict.fromkeys(("num_waiting_uncached_tokens", "num_waiting_reqs"), 0)
        entry = {**told, "num_running_reqs": number, "token_usage": 0.3}
        worker.backlog.note_report({"loads": [{**entry, "gen_throughput": 900.0}]})
        registry.add(worker)
    return tuple(registry.all())


def timed_us(call: Callable[[RoutingRequest], object], prompts: Iterable[str]) -> float:
    """The CPU time of one call in microseconds: the least of a few parts' medians.

    Others on the machine only ever make it longer, by a share of its caches.
    """
    taken = times_us(call, prompts, BATCH)
    size = -(-len(taken) // PARTS)
    return min(median(taken[at : at + size]) for at in range(0, len(taken), size))


def times_us(
    call: Callable[[RoutingRequest], object], prompts: Iterable[str], batch: int
) -> list[float]:
    """The mean CPU time of a call in each batch, in microseconds."""
    taken = []
    waiting = iter(prompts)
    while chosen := list(islice(waiting, batch)):
        requests = [
            RoutingRequest("m", HEADERS, 1.0, Given(each.__str__)) for each in chosen
        ]
        began = time.thread_time_ns()
        for request in requests:
            call(request)
        taken.append((time.thread_time_ns() - began) / 1000 / len(requests))
    return taken


class Report:
    """Lines of figures, and whether all kept within their budgets."""

    def __init__(self) -> None:
        self.is_within = True

    def add(self, what: str, figure: float, bound: float, unit: str) -> None:
        """Print one figure."""
        is_met = figure <= bound
        self.is_within &= is_met
        verdict = "met" if is_met else "MISSED"
        print(f"{what:52s} {figure:9.2f} of {bound:.0f} {unit}  {verdict}", flush=True)


def policies(report: Report) -> None:
    """A pick of every policy but cache_aware, plain and with sticky sessions."""
    for name in sorted({*POLICIES} - {CacheAwarePolicy.name}):
        for is_sticky in (False, True):
            options = PolicyOptions(routing_key_override=is_sticky)
            policy = PolicyMaker(name, options).default()
            workers = fleet()

            def pick(request: RoutingRequest) -> None:
                policy.pick(workers, request)

            taken = timed_us(pick, ["a prompt"] * SAMPLES)
            kind = "sticky" if is_sticky else "plain"
            report.add(f"pick, {name}, {kind}", taken, PICK_US, "us")


def cache_aware(report: Report) -> None:
    """Picks beside a tree of many prompts, and the upkeep of it."""
    prompts = Prompts()
    policy = PolicyMaker(CacheAwarePolicy.name, PolicyOptions()).default()
    assert isinstance(policy, CacheAwarePolicy)
    workers = fleet()

    def pick(request: RoutingRequest) -> None:
        policy.pick(workers, request)

    timed_us(pick, (prompts.next(PROMPT_CHARACTERS) for _ in range(PROMPTS)))
    longest_slice_ms(policy.indexes["m"].texts)
    for length, bound in ((2048, SHORT_US), (100 * 1024, LONG_US)):
        count = SAMPLES if length < 10_000 else LONG_SAMPLES
        texts = [prompts.next(length) for _ in range(count)]
        size = f"{length // 1024} KB"
        new = timed_us(pick, texts)
        report.add(f"pick, cache_aware, new {size}", new, bound, "us")
        known = timed_us(pick, texts)
        report.add(f"pick, cache_aware, known {size}", known, bound, "us")
        longer = timed_us(pick, [f"{text} and the next turn" for text in texts])
        report.add(f"pick, cache_aware, next turn {size}", longer, bound, "us")
    tree = policy.indexes["m"].texts.tree
    tree.budget //= 2
    longest = longest_slice_ms(policy.indexes["m"].texts)
    report.add("slice of eviction, longest", longest, SLICE_MS, "ms")
    policy.forget(workers[0])
    longest = longest_slice_ms(policy.indexes["m"].texts)
    report.add("slice of forgetting a worker, longest", longest, SLICE_MS, "ms")


def longest_slice_ms(index: HolderTree[str]) -> float:
    """Sweep until nothing is left to do; the longest slice, in milliseconds."""
    longest = 0.0
    has_more = True
    while has_more:
        began = time.thread_time()
        has_more = index.sweep()
        longest = max(longest, time.thread_time() - began)
    return 1000 * longest


def nested(holders: Iterable[Worker]) -> HolderTree[str]:
    """Prompts that branch at every node they may have, the branches older than they."""
    index: HolderTree[str] = HolderTree(1 << 26)
    first, *_ = holders = tuple(holders)
    whole = []
    for number in range(100):
        text = ""
        for piece in range(MAX_DEPTH - 1):
            text += f"{number} {piece} {'x' * 50}"
            index.record(index.tree.match(text + "!"), first)
        whole.append(text)
    for holder in holders:
        for text in whole:
            index.record(index.tree.match(text), holder)
    return index


def branching(holder: Worker) -> HolderTree[str]:
    """Long prompts with many ends: each that is forgotten joins long edges."""
    index: HolderTree[str] = HolderTree(1 << 26)
    for number in range(20):
        trunk = f"{number} " + "x" * 1_000_000
        for end in range(MAX_DEPTH - 1):
            index.record(index.tree.match(trunk + "y" * end + "!"), holder)
    return index


def longest_record_ms(holder: Worker) -> float:
    """The longest record of a long prompt in a tree that is full of short ones."""
    index: HolderTree[str] = HolderTree(1 << 24)
    tree = index.tree
    prompts = Prompts()
    for number in range((1 << 24) // CHARACTERS_PER_NODE):
        index.record(tree.match(f"{number} is short"), holder)
    longest = 0.0
    for _ in range(SAMPLES):
        text = prompts.next(100 * 1024)
        began = time.thread_time()
        index.record(tree.match(text), holder)
        longest = max(longest, time.thread_time() - began)
    return 1000 * longest


def worst_slices(report: Report) -> None:
    """Upkeep of trees that somebody made to be hard to keep."""
    one, two, *_ = fleet()
    longest = longest_record_ms(one)
    report.add("record in a full tree, longest", longest, SLICE_MS, "ms")
    for what, index in (
        ("of nested prompts", nested((one, two))),
        ("of a prompt's many ends", branching(one)),
    ):
        index.tree.budget = 0
        longest = longest_slice_ms(index)
        report.add(f"slice of eviction {what}, longest", longest, SLICE_MS, "ms")
    for what, index in (
        ("nested prompts", nested((one, two))),
        ("a prompt's many ends", branching(one)),
    ):
        index.forget(one)
        longest = longest_slice_ms(index)
        report.add(f"slice of forgetting {what}, longest", longest, SLICE_MS, "ms")


def memory(report: Report) -> None:
    """What a tree of as many prompts takes."""
    prompts = Prompts()
    gc.collect()
    tracemalloc.start()
    tree: RadixTree[str] = RadixTree(1 << 30)
    for number in range(PROMPTS // 2):
        tree.record(tree.match(prompts.next(PROMPT_CHARACTERS)), number % WORKERS)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    bound = BYTES_PER_CHARACTER * tree.size + BYTES_PER_NODE * len(tree)
    report.add("tree, memory", taken / 1e6, bound / 1e6, "MB")


def main() -> int:
    """Measure everything."""
    report = Report()
    policies(report)
    memory(report)
    gc.freeze()
    cache_aware(report)
    worst_slices(report)
    return 0 if report.is_within else 1


if __name__ == "__main__":
    sys.exit(main())
