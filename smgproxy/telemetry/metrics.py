"""GET /metrics: the plain counters, written down by prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.process_collector import ProcessCollector

from smgproxy.telemetry.families import Family, counter, gauge, histogram
from smgproxy.telemetry.routing_metrics import retry_families
from smgproxy.telemetry.stats import HttpStats, LoopStats, RouterStats
from smgproxy.telemetry.worker_metrics import WorkerFamilies, WorkerLike

_AGE_BOUNDS = (30, 60, 180, 300, 600, 1200, 3600, 7200, 14400, 28800, 86400)
_ROUTED = ["router_type", "backend_type", "connection_mode", "model", "endpoint"]
_HTTP = ("http", "regular", "http")


class Http2Side(Protocol):
    """The HTTP/2 connections of the listener."""

    connections: int
    resets: int
    refused: int
    errors: dict[int, int]


class ClientSide(Protocol):
    """The listener, as far as it is counted."""

    @property
    def open_connections(self) -> int:
        """Connections at this moment."""

    @property
    def failed_handshakes(self) -> dict[str, int]:
        """TLS handshakes that failed, by reason."""

    accepted: int
    turned_away: int
    malformed: dict[int, int]

    @property
    def http2(self) -> Http2Side:
        """What is counted of HTTP/2 alone."""


class Sources:
    """Where the numbers stand; every member is read when somebody scrapes."""

    __slots__ = (
        "http",
        "router",
        "loop",
        "clients",
        "workers",
        "ages",
        "pools",
        "sends",
        "lost_lines",
        "charges",
        "more",
    )

    def __init__(
        self,
        http: HttpStats,
        router: RouterStats,
        loop: LoopStats,
        clients: ClientSide,
        workers: Callable[[], Iterable[WorkerLike]],
        ages: Callable[[], Iterable[float]],
        pools: Callable[[], dict[str, tuple[int, int]]],
        sends: Callable[[], int],
        lost_lines: Callable[[], int],
        charges: dict[tuple[str, str], int] | None = None,
        more: Sequence[Callable[[], Iterable[Family]]] = (),
    ) -> None:
        self.http = http
        self.router = router
        self.loop = loop
        self.clients = clients
        self.workers = workers
        self.ages = ages  # seconds since each running request arrived
        self.pools = pools  # idle and busy connections by worker URL
        self.sends = sends  # requests sent a second time
        self.lost_lines = lost_lines  # of the log
        # Decisions of budgets, by tenant and result.
        self.charges = {} if charges is None else charges
        self.more = more  # families of rooms that are not always there


class _Page:
    """The one collector of a page."""

    __slots__ = ("_taken", "_process")

    def __init__(self, taken: list[Family], process: ProcessCollector) -> None:
        self._taken = taken
        self._process = process

    def collect(self) -> Iterator[Metric]:
        """What prometheus_client calls."""
        for family in self._taken:
            yield family.metric()
        yield from self._process.collect()


class Exposition:
    """The gateway's own numbers, and those of its process."""

    __slots__ = ("_process", "_sources", "_version", "_families")

    def __init__(self, sources: Sources, version: str) -> None:
        self._sources = sources
        self._version = version
        self._families = WorkerFamilies()
        self._process = ProcessCollector(registry=None)

    def snapshot(self) -> list[Family]:
        """All numbers as they are at this moment; to be called on the event loop."""
        return list(self._collect())

    def page(self, taken: list[Family]) -> bytes:
        """The page of a snapshot, and of the process; for a thread: to count 20,000
        open descriptors alone takes 12 ms."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Page(taken, self._process))
        return generate_latest(registry)

    def _collect(self) -> Iterator[Family]:
        yield gauge(
            "smg_build_info",
            "The version that runs",
            ["version"],
            [((self._version,), 1)],
        )
        yield from self._http()
        yield from self._clients()
        yield from self._http2()
        yield from self._router()
        yield from retry_families(self._sources.router)
        yield from self._families.collect(list(self._sources.workers()))
        yield counter(
            "smg_tenant_rate_limit",
            "Requests that a tenant's budget allowed or rejected",
            ["tenant", "result"],
            self._sources.charges.items(),
        )
        for families in self._sources.more:
            yield from families()
        yield from self._loop()

    def _http(self) -> Iterator[Family]:
        http = self._sources.http
        yield counter(
            "smg_http_requests",
            "Requests received",
            ["method", "path"],
            http.requests.items(),
        )
        yield counter(
            "smg_http_responses",
            "Responses sent completely",
            ["path", "status_code", "error_code"],
            http.responses.items(),
        )
        yield histogram(
            "smg_http_request_duration_seconds",
            "Arrival until response head",
            ["method", "path"],
            http.durations.items(),
        )
        yield gauge(
            "smg_http_connections_active",
            "Requests in flight",
            [],
            [((), http.in_flight)],
        )
        yield self._in_flight_ages()

    def _in_flight_ages(self) -> Family:
        bounds = (0, *_AGE_BOUNDS)
        counts = [0] * len(bounds)
        for age in self._sources.ages():
            at = sum(1 for bound in _AGE_BOUNDS if age > bound)
            counts[at] += 1
        edges = [*map(str, bounds), "+Inf"]
        rows = [((edges[i], edges[i + 1]), count) for i, count in enumerate(counts)]
        return gauge(
            "smg_http_inflight_request_age_count",
            "Requests in flight by age in seconds",
            ["gt", "le"],
            rows,
        )

    def _clients(self) -> Iterator[Family]:
        clients = self._sources.clients
        yield gauge(
            "smg_client_connections_open",
            "Client connections open",
            [],
            [((), clients.open_connections)],
        )
        yield counter(
            "smg_client_connections",
            "Client connections accepted",
            [],
            [((), clients.accepted)],
        )
        yield counter(
            "smg_client_connections_refused",
            "Client connections closed on arrival: --max-connections",
            [],
            [((), clients.turned_away)],
        )
        yield counter(
            "smg_client_malformed",
            "Requests refused by their framing",
            ["status_code"],
            [((status,), count) for status, count in clients.malformed.items()],
        )
        yield counter(
            "smg_client_tls_handshake_failures",
            "TLS handshakes with clients that failed",
            ["reason"],
            [((why,), count) for why, count in clients.failed_handshakes.items()],
        )

    def _http2(self) -> Iterator[Family]:
        http2 = self._sources.clients.http2
        yield counter(
            "smg_client_http2_connections",
            "Client connections that spoke HTTP/2",
            [],
            [((), http2.connections)],
        )
        yield counter(
            "smg_client_http2_resets",
            "HTTP/2 requests that clients took back",
            [],
            [((), http2.resets)],
        )
        yield counter(
            "smg_client_http2_refused",
            "HTTP/2 requests above --http2-max-concurrent-streams or while draining",
            [],
            [((), http2.refused)],
        )
        yield counter(
            "smg_client_http2_errors",
            "Streams reset and connections ended by the gateway, by RFC 9113 code",
            ["code"],
            [((str(code),), count) for code, count in http2.errors.items()],
        )

    def _router(self) -> Iterator[Family]:
        router = self._sources.router
        yield counter(
            "smg_router_requests",
            "Requests routed",
            [*_ROUTED, "streaming"],
            [
                ((*_HTTP, model, endpoint, str(is_stream).lower()), count)
                for (model, endpoint, is_stream), count in router.requests.items()
            ],
        )
        yield counter(
            "smg_router_request_errors",
            "Routed requests that failed",
            [*_ROUTED, "error_type"],
            [((*_HTTP, *key), count) for key, count in router.errors.items()],
        )
        yield histogram(
            "smg_router_request_duration_seconds",
            "Time of routed requests that did not fail",
            _ROUTED,
            [((*_HTTP, *key), found) for key, found in router.durations.items()],
        )
        yield counter(
            "smg_router_upstream_responses",
            "Answers of workers, one for each attempt",
            ["router_type", "status_code", "error_code"],
            [(("http", *key), count) for key, count in router.upstream.items()],
        )
        yield counter(
            "smg_router_upstream_send_retries",
            "Requests sent again because their connection died unanswered",
            ["router_type"],
            [(("http",), self._sources.sends())],
        )
        yield counter(
            "smg_router_request_body_path",
            "Request bodies, by how they travelled to the worker and why",
            ["path", "reason"],
            router.body_paths.items(),
        )
        yield counter(
            "smg_router_request_buffers_released_early_bytes",
            "Bytes of request bodies let go with their first send",
            [],
            [((), router.released_early_bytes)],
        )
        pools = self._sources.pools().items()
        yield gauge(
            "smg_upstream_connections",
            "Connections to workers",
            ["worker", "state"],
            [
                row
                for url, (idle, busy) in pools
                for row in (((url, "idle"), idle), ((url, "busy"), busy))
            ],
        )

    def _loop(self) -> Iterator[Family]:
        loop = self._sources.loop
        yield histogram(
            "smg_event_loop_delay_seconds",
            "Lateness of a 100 ms tick of the event loop",
            [],
            [((), loop.delays)],
        )
        yield counter(
            "smg_event_loop_stalls",
            "Ticks more than 5 ms late",
            [],
            [((), loop.stalls)],
        )
        yield counter(
            "smg_log_lines_dropped",
            "Log lines that nobody took in time",
            [],
            [((), self._sources.lost_lines())],
        )
