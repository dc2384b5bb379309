"""A worker: one engine behind one URL, and what the gateway believes about it."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from smgproxy.fleet.backlog import Backlog
from smgproxy.fleet.breaker import CircuitBreaker
from smgproxy.fleet.overload import OverloadLimits
from smgproxy.fleet.ranks import split_rank


class WorkerState(Enum):
    """Where a worker stands; only READY receives traffic."""

    PENDING = "pending"
    READY = "ready"
    NOT_READY = "not_ready"
    FAILED = "failed"
    DRAINING = "draining"


@dataclasses.dataclass(frozen=True)
class HttpPoolSettings:
    """A worker's ``http_pool`` block, gateway flags filled in."""

    http2: bool | None = None  # pinned; None: as the worker can
    prefers_http2: bool = False  # --upstream-http2
    pool_max_idle_per_host: int = 500
    pool_idle_timeout_secs: float = 3
    timeout_secs: float = 1800
    connect_timeout_secs: float = 10


@dataclasses.dataclass(frozen=True)
class HealthSettings:
    """A worker's ``health`` block, gateway flags filled in."""

    timeout_secs: float = 5
    check_interval_secs: float = 60
    success_threshold: int = 2
    failure_threshold: int = 3
    disable_health_check: bool = False
    drain_settle_secs: float = 5
    endpoint: str = "/health"


class Worker:
    """One engine behind one URL.

    The registered URL is the identity and is shown as given. ``load`` counts the
    gateway's own exchanges in flight; whoever raises it lowers it, on every path.
    The counters are plain ints that metrics read at scrape time.
    """

    __slots__ = (
        "id",
        "engine_id",
        "url",
        "base_url",
        "host",
        "port",
        "is_tls",
        "authority",
        "routed_id",
        "api_key",
        "models",
        "labels",
        "worker_type",
        "runtime_type",
        "priority",
        "cost",
        "spec",
        "http_pool",
        "health",
        "http2",
        "order",
        "state",
        "is_removed",
        "load",
        "engine_load",
        "last_report",
        "backlog",
        "breaker",
        "overload",
        "is_overloaded",
        "dp_rank",
        "dp_size",
        "active_keys",
        "requests",
        "selections",
        "backend_errors",
        "timeouts",
        "successes",
        "failures",
        "load_polls",
    )

    def __init__(
        self,
        id: str,  # noqa: A002 - the contract's word
        url: str,
        *,
        http_pool: HttpPoolSettings | None = None,
        health: HealthSettings | None = None,
        api_key: str | None = None,
    ) -> None:
        self.base_url, self.dp_rank = split_rank(url)
        parts = urlsplit(self.base_url)
        self.id = id
        self.engine_id = id  # that of its engine's first rank, when it is another one
        self.url = url
        self.host = parts.hostname or ""
        self.is_tls = parts.scheme == "https"
        self.port = parts.port or (443 if self.is_tls else 80)
        self.authority = parts.netloc.rpartition("@")[2].encode("ascii", "replace")
        self.routed_id = url.encode("ascii", "replace")
        self.api_key = api_key
        # Model cards as GET /workers shows them; the first is the model served.
        self.models: list[dict[str, Any]] = []
        self.labels: dict[str, str] = {}
        # Ranks of its engine, where they are told apart.
        self.dp_size: int | None = None
        self.worker_type = "regular"
        self.runtime_type = "unspecified"
        self.priority = 50
        self.cost = 1.0
        # The optional blocks of the spec as given, echoed by GET /workers.
        self.spec: dict[str, Any] = {}
        self.http_pool = http_pool or HttpPoolSettings()
        self.health = health or HealthSettings()
        # Whether it is spoken to by HTTP/2, decided at registration, or by the probe
        # that brings it back. Without TLS that is by prior knowledge; with TLS, ALPN
        # may choose it where this is False.
        self.http2 = False
        self.order = 0  # place in the list: who was asked for first stands first
        self.state = WorkerState.PENDING
        self.is_removed = False
        self.load = 0
        self.engine_load: dict[str, Any] | None = None
        # The same, but kept when polls fail: the last thing anybody knows.
        self.last_report: dict[str, Any] | None = None
        self.backlog = Backlog()
        self.breaker = CircuitBreaker()
        self.overload: OverloadLimits | None = None  # its own, if it has any
        self.is_overloaded = False  # the verdict on its last load report
        self.active_keys = 0  # routing keys with requests in flight here
        # Sends by model label, one per attempt.
        self.requests: dict[str, int] = defaultdict(int)
        self.selections: dict[tuple[str, str], int] = {}  # by (model, policy)
        self.backend_errors = 0  # answers of 5xx (504 aside) and failed sends
        self.timeouts = 0  # answers of 504 and request timeouts
        self.successes = 0  # health probes
        self.failures = 0
        self.load_polls = 0  # load reports that were asked for

    def take_over(self, candidate: Worker) -> None:
        """Become what ``candidate`` is, under the same id and with the same past."""
        self.api_key = candidate.api_key
        self.models = candidate.models
        self.labels = candidate.labels
        self.runtime_type = candidate.runtime_type
        self.priority = candidate.priority
        self.cost = candidate.cost
        self.spec = candidate.spec
        self.http_pool = candidate.http_pool
        self.health = candidate.health
        self.overload = candidate.overload
        self.breaker.settings = candidate.breaker.settings
        self.http2 = candidate.http2
        self.dp_size = candidate.dp_size

    @property
    def is_ready(self) -> bool:
        """Whether new requests may go here."""
        return self.state is WorkerState.READY

    @property
    def may_speak_either(self) -> bool:
        """Whether the version of HTTP it speaks is found out by asking."""
        pool = self.http_pool
        # With TLS both are offered in the handshake, each time anew.
        return pool.prefers_http2 and pool.http2 is None and not self.is_tls

    @property
    def model_id(self) -> str | None:
        """The model it serves: its first card's id."""
        return self.models[0]["id"] if self.models else None

    def count_request(self, model: str | None) -> None:
        """Count a send; its own model's, where the request or its label names none."""
        if model is None or model == "unknown":
            model = self.model_id or "unknown"
        self.requests[model] += 1

    def served_names(self) -> set[str]:
        """The ids and aliases of its cards."""
        cards = self.models
        return {name for c in cards for name in (c["id"], *c.get("aliases", ()))}

    def serves(self, model: str) -> bool:
        """Whether ``model`` is an id or alias of one of its cards."""
        return model in self.served_names()
