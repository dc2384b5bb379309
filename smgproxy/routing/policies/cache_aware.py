"""cache_aware: where the prompt's beginning is cached, unless it is too busy there."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from smgproxy.fleet.worker import Worker
from smgproxy.routing.expected_wait import ExpectedWait
from smgproxy.routing.hash_index import HashIndex
from smgproxy.routing.holders import HolderTree
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import TOKEN_BYTES, RoutingRequest
from smgproxy.routing.slots import Text

RATIOS = tuple(tenth / 10 for tenth in range(11))
# Characters that stand for a token of a prompt that is not tokenised.
_TOKEN_CHARACTERS = 4
# By how many requests a worker may always be busier than the mean.
_LEAST_MARGIN = 4.0


@dataclasses.dataclass(frozen=True)
class CacheAwareSettings:
    """What may be tuned; the defaults are those of a policy that a label asks for."""

    threshold: float = 0.5
    abs_threshold: int = 32
    rel_threshold: float = 1.1
    usage_spread: float = 1.0
    usage_limit: float = 1.0
    overlap_decay: float = 0.0
    temperature: float = 0.0
    max_tree_size: int = 10_000
    block_size: int = 16
    index: str = "tree"
    boundaries: tuple[int, ...] = ()
    ttl_secs: float = 180


class ModelIndex:
    """What is remembered of one model's prompts: as text, as tokens, and by hash."""

    __slots__ = ("texts", "tokens", "heads")

    def __init__(self, settings: CacheAwareSettings) -> None:
        budget, page = settings.max_tree_size, settings.block_size * TOKEN_BYTES
        self.texts: HolderTree[str] = HolderTree(budget)
        self.tokens: HolderTree[bytes] = HolderTree(budget * TOKEN_BYTES, page)
        self.heads = HashIndex(settings.boundaries, settings.ttl_secs)


class CacheAwarePolicy(Policy):
    """Prefers a holder of the prompt's beginning; else the lowest expected wait.

    ``ratios`` counts how much of each prompt was matched, by the bucket of RATIOS;
    ``ratio_sum`` is their sum.
    """

    __slots__ = (
        *("indexes", "ratios", "ratio_sum"),
        *("_settings", "_threshold", "_least_margin", "_suits_any", "_wait"),
        "_eligible",
    )
    name = "cache_aware"
    reads_text = True
    reads_loads = True

    def __init__(
        self,
        settings: CacheAwareSettings = CacheAwareSettings(),
        draw: Draw | None = None,
    ) -> None:
        super().__init__(draw)
        self.indexes: dict[str, ModelIndex] = {}
        self.ratios = [0] * len(RATIOS)
        self.ratio_sum = 0.0
        self._settings = settings
        self._threshold = settings.threshold
        self._least_margin = min(settings.abs_threshold, _LEAST_MARGIN)
        self._suits_any = settings.usage_limit >= 1 and settings.usage_spread >= 1
        self._wait = ExpectedWait()
        self._eligible: tuple[tuple[Worker, ...], frozenset[Worker]] = ((), frozenset())

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """A holder with room, or the worker where the request waits least."""
        if not candidates:
            return None
        index = self.indexes.get(request.model)
        if index is None:
            index = self.indexes[request.model] = ModelIndex(self._settings)
        tokens = request.tokens
        if self._settings.index == "hash":
            return self._by_hash(index, candidates, request)
        partition = request.partition
        if tokens:
            page = self._settings.block_size * TOKEN_BYTES
            mark = partition.encode().ljust(page, b"\0") if partition else b""
            count = len(tokens) // TOKEN_BYTES
            return self._by_tree(
                index.tokens, mark + tokens, len(mark), candidates, count
            )
        text = request.text
        if partition:
            # No prompt of another partition begins like this.
            text = f"\0{partition}\0{text}"
        marked = len(partition) + 2 if partition else 0
        return self._by_tree(index.texts, text, marked, candidates, 0)

    def sizes(self) -> Iterator[tuple[str, int, int, int, int, int]]:
        """For each model: characters, tokens and heads that are remembered, and the
        workers of which there is text, and tokens."""
        for model, index in self.indexes.items():
            texts, tokens = index.texts, index.tokens
            count = tokens.tree.size // TOKEN_BYTES
            kept = (texts.tree.size, count, len(index.heads))
            yield model, *kept, texts.workers, tokens.workers

    # -- trees --------------------------------------------------------------------

    def _by_tree(
        self,
        index: HolderTree[Text],
        prompt: Text,
        marked: int,
        candidates: tuple[Worker, ...],
        tokens: int,
    ) -> Worker:
        tree = index.tree
        found = tree.match(prompt)
        holders, matched = tree.holders(found)
        length = len(prompt)
        if length > tree.longest:
            length = tree.longest
        length -= marked
        ratio = (matched - marked) / length if matched > marked else 0.0
        self.ratios[bisect_left(RATIOS, ratio)] += 1
        self.ratio_sum += ratio
        worker = None
        if ratio > self._threshold and (self._suits_any or self._suits(candidates)):
            fit = index.among(self._eligible_of(candidates), holders)
            if len(fit) > 1:
                fit = self._ranked(fit, tokens or length // _TOKEN_CHARACTERS)
            if fit:
                worker = self._coolest(fit, candidates, tokens)
        if worker is None:
            self._count("expected_wait_fallback")
            worker = self._wait.lowest(candidates, tokens, self._draw)
        if length:
            index.record(found, worker)
        return worker

    def _coolest(
        self, holders: list[Worker], candidates: tuple[Worker, ...], tokens: int
    ) -> Worker:
        """A holder, or somebody else when all of them are hot."""
        cool = self._cool(holders, candidates)
        if cool:
            self._count("tree_match")
        else:
            self._count("spill")
            cool = self._cool(candidates, candidates) or candidates
        return self._wait.lowest(cool, tokens, self._draw)

    def _ranked(self, holders: list[Worker], size: int) -> list[Worker]:
        """The best holders; all matched as much, so only a decay tells them apart."""
        decay, temperature = self._settings.overlap_decay, self._settings.temperature
        if not decay and not temperature:
            return holders
        queued = [one.backlog.queued_tokens for one in holders]
        least = min(queued)
        scores = [
            1 / (1 + decay * (tokens - least) / max(size, 1)) for tokens in queued
        ]
        top = max(scores)
        if not temperature:
            return [one for one, score in zip(holders, scores) if score == top]
        return [holders[_softmax(scores, temperature, self._draw())]]

    def _cool(
        self, workers: Sequence[Worker], candidates: tuple[Worker, ...]
    ) -> Sequence[Worker]:
        """Those that are not far busier than the candidates are on the average."""
        settings = self._settings
        if len(workers) == 1:
            load = workers[0].load
            # The mean is at least this worker's share of it, and the margin the least.
            if load <= self._least_margin + load / len(candidates):
                return workers
        mean = sum([one.load for one in candidates]) / len(candidates)
        # The margin has a cap, or a small pool would never spill.
        margin = min(settings.abs_threshold, max(_LEAST_MARGIN, 2 * math.sqrt(mean)))
        limit = max(settings.rel_threshold * mean, mean + margin)
        return [one for one in workers if one.load <= limit]

    def _suits(self, candidates: tuple[Worker, ...]) -> bool:
        """Whether the KV caches are even enough for affinity to have its way."""
        settings = self._settings
        usages = [one.backlog.usage for one in candidates if one.backlog.is_reported]
        if not usages:
            return True
        hottest = max(usages)
        is_over = settings.usage_limit < 1 and hottest > settings.usage_limit
        is_uneven = hottest - min(usages) > settings.usage_spread
        return not is_over and not (settings.usage_spread < 1 and is_uneven)

    def _eligible_of(self, candidates: tuple[Worker, ...]) -> frozenset[Worker]:
        known, eligible = self._eligible
        if known is not candidates:
            eligible = frozenset(candidates)
            self._eligible = (candidates, eligible)
        return eligible

    # -- hashes -------------------------------------------------------------------

    def _by_hash(
        self,
        index: ModelIndex,
        candidates: tuple[Worker, ...],
        request: RoutingRequest,
    ) -> Worker:
        tokens = request.tokens
        count = len(tokens) // TOKEN_BYTES
        heads = index.heads.heads(tokens, TOKEN_BYTES, request.partition)
        eligible = self._eligible_of(candidates)
        now = request.now
        fit = index.heads.find(heads, eligible, now) if heads else []
        if fit and (self._suits_any or self._suits(candidates)):
            cool = self._cool(fit, candidates) or self._cool(candidates, candidates)
            worker = self._wait.lowest(cool or candidates, count, self._draw)
        else:
            worker = self._wait.lowest(candidates, count, self._draw)
        if heads:
            index.heads.record(heads, worker, now)
        return worker

    # -- upkeep -------------------------------------------------------------------

    def forget(self, worker: Worker) -> None:
        """Nothing is matched by a worker that left."""
        self._eligible = ((), frozenset())
        for index in self.indexes.values():
            index.texts.forget(worker)
            index.tokens.forget(worker)

    def forget_model(self, model: str) -> None:
        """Drop the model's index."""
        self.indexes.pop(model, None)

    def sweep(self, now: float) -> bool:
        """Bring what is over its budget nearer to it."""
        return any(
            index.texts.sweep() or index.tokens.sweep() or index.heads.sweep(now)
            for index in self.indexes.values()
        )


def _softmax(scores: list[float], temperature: float, draw: float) -> int:
    """A place drawn with weight exp(score / temperature), scores stretched to 0..1."""
    low, high = min(scores), max(scores)
    if low == high:
        return int(draw * len(scores))
    weights = [
        math.exp(((score - low) / (high - low) - 1) / temperature) for score in scores
    ]
    left = draw * sum(weights)
    for place, weight in enumerate(weights):
        left -= weight
        if left < 0:
            return place
    return scores.index(high)
