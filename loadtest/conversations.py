"""Conversations of several turns that share system prompts, and caches of prefixes.

What the simulation of policies and the comparison of gateways have in common.
"""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

WORKERS = 20
CONVERSATIONS = 2000
ARRIVALS_PER_SEC = 12.0
BLOCK = 64  # characters of a cache block, about sixteen tokens
BLOCK_TOKENS = 16
CACHE_BLOCKS = 12_000
PREFILL_BLOCKS_PER_SEC = 500.0
DECODE_SECS = 1.5
REPORT_SECS = 10.0


@dataclass(frozen=True)
class Turn:
    """One request of the trace: a system prompt, then a user and an assistant in turn.

    ``at`` is in seconds since the trace's beginning.
    """

    at: float
    client: int
    messages: tuple[str, ...]

    @property
    def prompt(self) -> str:
        """The text as gateways put it together to route by it."""
        return " ".join(self.messages)


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
        said: tuple[str, ...] = (systems[int(len(systems) * draw.random() ** 3)],)
        when = at
        for _ in range(draw.randint(1, 8)):
            said += (prose(50, 800),)
            turns.append(Turn(when, client, said))
            said += (prose(100, 1200),)
            when += DECODE_SECS + draw.expovariate(1 / 8)
    return sorted(turns, key=lambda turn: turn.at)


def blocks_of(prompt: str) -> list[bytes]:
    """The hash of each whole block, which depends on all before it."""
    running = blake2b(digest_size=8)
    hashes = []
    for begin in range(0, len(prompt) - BLOCK + 1, BLOCK):
        running.update(prompt[begin : begin + BLOCK].encode())
        hashes.append(running.copy().digest())
    return hashes


class PrefixCache:
    """A worker's cache of prompts' beginnings; what was not used for longest goes."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def take(self, blocks: Sequence[bytes]) -> int:
        """How many leading blocks are there; all are afterwards."""
        cache = self._blocks
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
        return hits

    def __len__(self) -> int:
        """Blocks that are cached."""
        return len(self._blocks)


def busiest_share(work: Sequence[float]) -> float:
    """What the busiest has, as a share of the mean."""
    return max(work) * len(work) / sum(work)
