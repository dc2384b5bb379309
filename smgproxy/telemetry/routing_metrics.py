"""Retries, and how the selection policies came to their decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from smgproxy.telemetry.families import Family, counter, gauge, histogram
from smgproxy.telemetry.stats import MAX_MODELS, Histogram, RouterStats

# Published at 0, so that rate() sees the first one; routes that are not among them
# count as "other" (contract, layer 3).
_WORKER_TYPES = ("regular", "prefill", "decode")
_OTHER = "other"
_ENDPOINTS = (
    *("chat", "completions", "generate", "responses", "messages", "rerank"),
    *("audio_transcriptions", "decisions", "systemone", _OTHER),
)
# Shares of a prompt; they are those that the policy counts by.
RATIO_BOUNDS = tuple(tenth / 10 for tenth in range(11))

# Sticky sessions in front of another policy are counted as manual's decisions are.
_STICKY = "manual"
_BRANCHES = (
    ("cache_aware", "How prompts found their worker"),
    (_STICKY, "How routing keys found their worker"),
    ("consistent_hashing", "What decided on the owner"),
    ("prefix_hash", "What became of prompts' heads"),
)
_SIZES = (
    ("smg_cache_tree_chars", "Characters remembered of prompts, for each worker"),
    ("smg_cache_tree_tokens", "Tokens remembered of prompts, for each worker"),
    ("smg_cache_placement_entries", "Hashed heads of prompts remembered"),
)

_Counts = dict[tuple[str, str], int]


class PolicyLike(Protocol):
    """A selection policy, as far as all are counted alike."""

    name: str
    branches: dict[str, int]


def retry_families(router: RouterStats) -> Iterator[Family]:
    """Attempts that were made again, of HTTP workers."""
    for name, help_text, counts in (
        ("smg_worker_retries", "Retries; first attempts do not count", router.retries),
        (
            "smg_worker_retries_exhausted",
            "Requests that failed with their last attempt",
            router.exhausted,
        ),
    ):
        rows = {(kind, end): 0 for kind in _WORKER_TYPES for end in _ENDPOINTS}
        for endpoint, count in counts.items():
            rows["regular", endpoint if endpoint in _ENDPOINTS else _OTHER] += count
        yield counter(name, help_text, ["worker_type", "endpoint"], rows.items())
    yield histogram(
        "smg_worker_retry_backoff_seconds",
        "Pauses before retries; attempt 1 is the first retry",
        ["attempt"],
        [((number,), pauses) for number, pauses in router.backoffs.items()],
    )


def fallback_families(counts: Mapping[tuple[str, str], int]) -> Iterator[Family]:
    """Requests that went to another model; only names that a flag gives are in it."""
    if counts:
        yield counter(
            "smg_model_fallback",
            "Requests for which a worker of a fallback was picked",
            ["model", "served"],
            counts.items(),
        )


class _Totals:
    """What policies counted, by what they are and not by which."""

    __slots__ = ("branches", "sources", "ratios")

    def __init__(self) -> None:
        self.branches: _Counts = {}  # by policy and branch
        self.sources = {"rid": 0, "header": 0}
        self.ratios = Histogram(RATIO_BOUNDS)

    def copy(self) -> _Totals:
        """The same counts, to go on from."""
        other = _Totals()
        other.branches = self.branches.copy()
        other.sources = self.sources.copy()
        other.ratios.counts = self.ratios.counts.copy()
        other.ratios.total = self.ratios.total
        return other

    def add(self, policy: Any) -> None:
        """Count what one policy counted."""
        inner = getattr(policy, "inner", None)
        if inner is not None:
            self._add_branches(_STICKY, policy)
            for source, count in policy.sources.items():
                self.sources[source] += count
            policy = inner
        self._add_branches(policy.name, policy)
        for place, count in enumerate(getattr(policy, "ratios", ())):
            self.ratios.counts[place] += count
        self.ratios.total += getattr(policy, "ratio_sum", 0.0)

    def _add_branches(self, name: str, policy: PolicyLike) -> None:
        for branch, count in policy.branches.items():
            key = (name, branch)
            self.branches[key] = self.branches.get(key, 0) + count


class PolicyFamilies:
    """The families of the policies in use, from scrape to scrape.

    Remembers what the policy of a model that left had counted: a counter that falls
    reads as a restart.
    """

    __slots__ = ("_policies", "_seen", "_past")

    def __init__(self, policies: Callable[[], Sequence[PolicyLike]]) -> None:
        self._policies = policies
        self._seen: Sequence[PolicyLike] = ()
        self._past = _Totals()

    def collect(self) -> Iterator[Family]:
        """The families as they are now."""
        policies = self._policies()
        used = set(map(id, policies))
        for policy in self._seen:
            if id(policy) not in used:
                self._past.add(policy)
        self._seen = policies
        totals = self._past.copy()
        for policy in policies:
            totals.add(policy)
        yield from _decisions(totals)
        yield from _indexes(policies)
        yield _pinned_keys(policies)


def _decisions(totals: _Totals) -> Iterator[Family]:
    for name, help_text in _BRANCHES:
        yield counter(
            f"smg_{name}_policy_branch",
            help_text,
            ["branch"],
            [((b,), n) for (policy, b), n in totals.branches.items() if policy == name],
        )
    yield counter(
        "smg_routing_key_source",
        "Where the keys of sticky sessions came from",
        ["source"],
        [((source,), count) for source, count in totals.sources.items() if count],
    )
    ratios = totals.ratios
    yield histogram(
        "smg_cache_aware_match_ratio",
        "Share of prompts that was known; 0 counts those of which nothing was",
        [],
        [((), ratios)] if any(ratios.counts) else [],
    )


def _indexes(policies: Iterable[Any]) -> Iterator[Family]:
    """The sizes of the indexes, by model: of those that are registered."""
    sizes: dict[str, tuple[int, ...]] = {}
    for policy in policies:
        policy = getattr(policy, "inner", policy)
        for model, *found in policy.sizes() if hasattr(policy, "sizes") else ():
            if len(sizes) < MAX_MODELS:
                sizes[model] = tuple(found)
    for place, (name, help_text) in enumerate(_SIZES):
        rows = [((model,), found[place]) for model, found in sizes.items()]
        yield gauge(name, help_text, ["model"], rows)
    yield gauge(
        "smg_cache_tree_tenants",
        "Workers of which prompts are remembered",
        ["model", "tree"],
        [
            ((model, tree), found[place])
            for model, found in sizes.items()
            for tree, place in (("string", 3), ("token", 4))
        ],
    )


def _pinned_keys(policies: Iterable[Any]) -> Family:
    # Several policies may share one map.
    maps = {id(one.pins): one.pins for one in policies if hasattr(one, "pins")}
    return gauge(
        "smg_manual_policy_cache_entries",
        "Routing keys that have a worker",
        [],
        [((), sum(map(len, maps.values())))] if maps else [],
    )
