"""Layer 3 of the contract's metrics: what is counted on each worker's record.

Read from the workers that are registered at the moment of the scrape, so the series
of a removed worker vanish with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from smgproxy.telemetry.logs import printable
from smgproxy.telemetry.stats import MAX_MODELS

_Key = TypeVar("_Key")

_ENGINE_GAUGES = (
    ("smg_engine_running_requests", "num_running_reqs", "Requests the engine runs"),
    ("smg_engine_waiting_requests", "num_waiting_reqs", "Requests the engine queues"),
    ("smg_engine_token_usage", "token_usage", "Share of the KV cache in use"),
    ("smg_engine_gen_throughput", "gen_throughput", "Tokens a second"),
    ("smg_engine_cache_hit_rate", "cache_hit_rate", "Share of cached prompt tokens"),
)


class WorkerLike(Protocol):
    """A worker, as far as it is counted."""

    url: str
    worker_type: str
    load: int
    engine_load: dict[str, Any] | None
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

    def collect(self, workers: Sequence[WorkerLike]) -> Iterator[Metric]:
        """The families, of the workers that are registered now."""
        yield self._pool_size(workers)
        yield from _gauges(workers)
        yield from _counters(workers)
        yield from _totals(self._count(workers))
        yield from _engine(workers)

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

    def _pool_size(self, workers: Sequence[WorkerLike]) -> Metric:
        # A model whose last worker left goes to 0, so that an alert can see it.
        is_room = len(self._sizes) < MAX_MODELS
        sizes = dict.fromkeys(self._sizes, 0) if is_room else {}
        for worker in workers:
            _add(sizes, (worker.worker_type, worker.model_id or "unknown"), 1)
        self._sizes = sizes
        family = GaugeMetricFamily(
            "smg_worker_pool_size",
            "Registered workers",
            labels=["worker_type", "connection_mode", "model"],
        )
        for (kind, model), size in sizes.items():
            family.add_metric([kind, "http", printable(model)], size)
        return family


def _gauges(workers: Sequence[WorkerLike]) -> Iterator[Metric]:
    active = GaugeMetricFamily(
        "smg_worker_requests_active", "Requests in flight", labels=["worker"]
    )
    health = GaugeMetricFamily(
        "smg_worker_health", "1 ready, 0 otherwise", labels=["worker"]
    )
    http2 = GaugeMetricFamily(
        "smg_worker_http2", "1 when HTTP/2 is spoken", labels=["worker"]
    )
    for worker in workers:
        active.add_metric([worker.url], worker.load)
        health.add_metric([worker.url], int(worker.is_ready))
        http2.add_metric([worker.url], 0)
    yield from (active, health, http2)


def _counters(workers: Sequence[WorkerLike]) -> Iterator[Metric]:
    requests = CounterMetricFamily(
        "smg_worker_requests", "Sends, one for each attempt", labels=["worker", "model"]
    )
    polls = CounterMetricFamily(
        "smg_engine_load_polls", "Load reports asked for", labels=["worker", "mode"]
    )
    for worker in workers:
        for model, count in worker.requests.items():
            requests.add_metric([worker.url, printable(model)], count)
        polls.add_metric([worker.url, "poll"], worker.load_polls)
    yield from (requests, polls)


def _totals(totals: _Totals) -> Iterator[Metric]:
    selections = CounterMetricFamily(
        "smg_worker_selection",
        "Selections, one for each attempt",
        labels=["worker_type", "connection_mode", "model", "policy"],
    )
    for (kind, model, policy), count in totals.selections.items():
        selections.add_metric([kind, "http", printable(model), policy], count)
    errors = CounterMetricFamily(
        "smg_worker_errors",
        "Answers of 5xx and failed sends",
        labels=["worker_type", "connection_mode", "error_type"],
    )
    for (kind, error_type), count in totals.errors.items():
        errors.add_metric([kind, "http", error_type], count)
    checks = CounterMetricFamily(
        "smg_worker_health_checks", "Probes", labels=["worker_type", "result"]
    )
    for (kind, result), count in totals.checks.items():
        checks.add_metric([kind, result], count)
    yield from (selections, errors, checks)


def _add(counts: dict[_Key, int], key: _Key, count: int) -> None:
    counts[key] = counts.get(key, 0) + count


def _engine(workers: Sequence[WorkerLike]) -> Iterator[Metric]:
    for name, field, help_text in _ENGINE_GAUGES:
        family = GaugeMetricFamily(
            name, help_text, labels=["worker", "model", "dp_rank"]
        )
        for worker in workers:
            for entry in (worker.engine_load or {}).get("loads", ()):
                rank = str(entry.get("dp_rank", 0))
                model = printable(worker.model_id or "unknown")
                family.add_metric([worker.url, model, rank], entry.get(field, 0))
        yield family
