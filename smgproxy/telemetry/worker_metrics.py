"""Layer 3 of the contract's metrics: what is counted on each worker's record.

Series that name a worker are read from those registered at the moment of the scrape,
so that they vanish with it; what only sums over workers outlives them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from smgproxy.telemetry.breaker_metrics import GuardedLike, breaker_families
from smgproxy.telemetry.families import Family, counter, gauge
from smgproxy.telemetry.stats import MAX_MODELS

_Key = TypeVar("_Key")

_ENGINE_GAUGES = (
    ("smg_engine_running_requests", "num_running_reqs", "Requests the engine runs"),
    ("smg_engine_waiting_requests", "num_waiting_reqs", "Requests the engine queues"),
    ("smg_engine_token_usage", "token_usage", "Share of the KV cache in use"),
    ("smg_engine_gen_throughput", "gen_throughput", "Tokens a second"),
    ("smg_engine_cache_hit_rate", "cache_hit_rate", "Share of cached prompt tokens"),
)


class WorkerLike(GuardedLike, Protocol):
    """A worker, as far as it is counted."""

    worker_type: str
    http2: bool
    load: int
    last_report: dict[str, Any] | None
    is_overloaded: bool
    active_keys: int
    requests: dict[str, int]
    selections: dict[tuple[str, str], int]
    backend_errors: int
    timeouts: int
    successes: int
    failures: int
    load_polls: int

    @property
    def is_ready(self) -> bool:
        """Whether it receives traffic."""

    @property
    def model_id(self) -> str | None:
        """The model it serves."""


class _Totals:
    """What workers counted in the families that do not name the worker."""

    __slots__ = ("selections", "errors", "checks")

    def __init__(self) -> None:
        self.selections: dict[tuple[str, str, str], int] = {}
        self.errors: dict[tuple[str, str], int] = {}
        self.checks: dict[tuple[str, str], int] = {}

    def copy(self) -> _Totals:
        """The same counts, to go on from."""
        other = _Totals()
        other.selections = self.selections.copy()
        other.errors = self.errors.copy()
        other.checks = self.checks.copy()
        return other

    def add(self, worker: WorkerLike) -> None:
        """Count what one worker counted."""
        kind, selections = worker.worker_type, self.selections
        for (model, policy), count in worker.selections.items():
            key = (kind, model, policy)
            if key not in selections and len(selections) >= MAX_MODELS:
                key = (kind, "other", policy)
            _add(selections, key, count)
        _add(self.errors, (kind, "timeout"), worker.timeouts)
        _add(self.errors, (kind, "backend_error"), worker.backend_errors)
        _add(self.checks, (kind, "success"), worker.successes)
        _add(self.checks, (kind, "failure"), worker.failures)


class WorkerFamilies:
    """Every family of layer 3 that this version has, from scrape to scrape.

    Remembers what removed workers had counted where a family has no ``worker`` label:
    a counter that falls reads as a restart, and rate() would take all that is left
    for new.
    """

    __slots__ = ("_seen", "_past", "_sizes")

    def __init__(self) -> None:
        self._seen: list[WorkerLike] = []
        self._past = _Totals()
        self._sizes: dict[tuple[str, str], int] = {}

    def collect(self, workers: Sequence[WorkerLike]) -> Iterator[Family]:
        """The families, of the workers that are registered now."""
        yield self._pool_size(workers)
        yield self._overloaded(workers)
        yield from _gauges(workers)
        yield from _counters(workers)
        yield from _totals(self._count(workers))
        yield from _engine(workers)
        yield from breaker_families(workers)

    def _count(self, workers: Sequence[WorkerLike]) -> _Totals:
        registered = set(map(id, workers))
        seen = list(workers)
        for worker in self._seen:
            if id(worker) in registered:
                continue
            if worker.load:  # what it still runs still counts on its record
                seen.append(worker)
            else:
                self._past.add(worker)
        self._seen = seen
        totals = self._past.copy()
        for worker in seen:
            totals.add(worker)
        return totals

    def _pool_size(self, workers: Sequence[WorkerLike]) -> Family:
        # A model whose last worker left goes to 0, so that an alert can see it.
        is_room = len(self._sizes) < MAX_MODELS
        sizes = dict.fromkeys(self._sizes, 0) if is_room else {}
        for worker in workers:
            _add(sizes, (worker.worker_type, worker.model_id or "unknown"), 1)
        self._sizes = sizes
        return gauge(
            "smg_worker_pool_size",
            "Registered workers",
            ["worker_type", "connection_mode", "model"],
            [((kind, "http", model), size) for (kind, model), size in sizes.items()],
        )

    def _overloaded(self, workers: Sequence[WorkerLike]) -> Family:
        counts = dict.fromkeys((model for _, model in self._sizes), 0)
        for worker in workers:
            _add(counts, worker.model_id or "unknown", int(worker.is_overloaded))
        return gauge(
            "smg_workers_overloaded",
            "Workers that get no requests because of what they report",
            ["model"],
            [((model,), count) for model, count in counts.items()],
        )


def _gauges(workers: Sequence[WorkerLike]) -> Iterator[Family]:
    yield gauge(
        "smg_worker_requests_active",
        "Requests in flight",
        ["worker"],
        [((worker.url,), worker.load) for worker in workers],
    )
    yield gauge(
        "smg_worker_health",
        "1 ready, 0 otherwise",
        ["worker"],
        [((worker.url,), int(worker.is_ready)) for worker in workers],
    )
    yield gauge(
        "smg_worker_routing_keys_active",
        "Routing keys with requests in flight",
        ["worker"],
        [((worker.url,), worker.active_keys) for worker in workers],
    )
    yield gauge(
        "smg_worker_http2",
        "1 when HTTP/2 is spoken",
        ["worker"],
        [((worker.url,), int(worker.http2)) for worker in workers],
    )


def _counters(workers: Sequence[WorkerLike]) -> Iterator[Family]:
    yield counter(
        "smg_worker_requests",
        "Sends, one for each attempt",
        ["worker", "model"],
        [
            ((worker.url, model), count)
            for worker in workers
            for model, count in worker.requests.items()
        ],
    )
    yield counter(
        "smg_engine_load_polls",
        "Load reports asked for",
        ["worker", "mode"],
        [((worker.url, "poll"), worker.load_polls) for worker in workers],
    )


def _totals(totals: _Totals) -> Iterator[Family]:
    yield counter(
        "smg_worker_selection",
        "Selections, one for each attempt",
        ["worker_type", "connection_mode", "model", "policy"],
        [((kind, "http", *key), n) for (kind, *key), n in totals.selections.items()],
    )
    yield counter(
        "smg_worker_errors",
        "Answers of 5xx and failed sends",
        ["worker_type", "connection_mode", "error_type"],
        [((kind, "http", why), n) for (kind, why), n in totals.errors.items()],
    )
    yield counter(
        "smg_worker_health_checks",
        "Probes",
        ["worker_type", "result"],
        totals.checks.items(),
    )


def _add(counts: dict[_Key, int], key: _Key, count: int) -> None:
    counts[key] = counts.get(key, 0) + count


def _engine(workers: Sequence[WorkerLike]) -> Iterator[Family]:
    """The last report as long as polls merely fail; -1 once it leaves ready."""
    for name, field, help_text in _ENGINE_GAUGES:
        rows = [
            (
                (worker.url, worker.model_id or "unknown", entry.get("dp_rank", 0)),
                entry.get(field, 0) if worker.is_ready else -1,
            )
            for worker in workers
            for entry in (worker.last_report or {}).get("loads", ())
        ]
        yield gauge(name, help_text, ["worker", "model", "dp_rank"], rows)
