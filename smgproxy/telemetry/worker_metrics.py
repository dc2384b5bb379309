"""Layer 3 of the contract's metrics: what is counted on each worker's record.

Read from the workers that are registered at the moment of the scrape, so the series
of a removed worker vanish with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from smgproxy.telemetry.logs import printable

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


def worker_families(workers: Sequence[WorkerLike]) -> Iterator[Metric]:
    """Every family of layer 3 that this version has."""
    yield _pool_size(workers)
    yield from _gauges(workers)
    yield from _counters(workers)
    yield from _engine(workers)


def _pool_size(workers: Sequence[WorkerLike]) -> Metric:
    sizes: dict[tuple[str, str], int] = {}
    for worker in workers:
        key = (worker.worker_type, worker.model_id or "unknown")
        sizes[key] = sizes.get(key, 0) + 1
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
    selections: dict[tuple[str, str, str], int] = {}
    errors: dict[tuple[str, str], int] = {}
    checks: dict[tuple[str, str], int] = {}
    polls = CounterMetricFamily(
        "smg_engine_load_polls", "Load reports asked for", labels=["worker", "mode"]
    )
    for worker in workers:
        kind = worker.worker_type
        for model, count in worker.requests.items():
            requests.add_metric([worker.url, printable(model)], count)
        for (model, policy), count in worker.selections.items():
            _add(selections, (kind, model, policy), count)
        _add(errors, (kind, "timeout"), worker.timeouts)
        _add(errors, (kind, "backend_error"), worker.backend_errors)
        _add(checks, (kind, "success"), worker.successes)
        _add(checks, (kind, "failure"), worker.failures)
        polls.add_metric([worker.url, "poll"], worker.load_polls)
    yield requests
    family = CounterMetricFamily(
        "smg_worker_selection",
        "Selections, one for each attempt",
        labels=["worker_type", "connection_mode", "model", "policy"],
    )
    for (kind, model, policy), count in selections.items():
        family.add_metric([kind, "http", printable(model), policy], count)
    yield family
    family = CounterMetricFamily(
        "smg_worker_errors",
        "Answers of 5xx and failed sends",
        labels=["worker_type", "connection_mode", "error_type"],
    )
    for (kind, error_type), count in errors.items():
        family.add_metric([kind, "http", error_type], count)
    yield family
    family = CounterMetricFamily(
        "smg_worker_health_checks", "Probes", labels=["worker_type", "result"]
    )
    for (kind, result), count in checks.items():
        family.add_metric([kind, result], count)
    yield family
    yield polls


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
