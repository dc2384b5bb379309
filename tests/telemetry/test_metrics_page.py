"""The metrics page: names, labels and values, read back with Prometheus' own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from smgproxy.fleet.discovery import DiscoveryStats
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.policy import Policy
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.fleet_metrics import discovery_families, overload_families
from smgproxy.telemetry.metrics import Exposition, Sources
from smgproxy.telemetry.realtime import RealtimeStats
from smgproxy.telemetry.routing_metrics import PolicyFamilies, fallback_families
from smgproxy.telemetry.stats import Histogram, HttpStats, LoopStats, RouterStats

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Http2:
    """HTTP/2 connections, as far as they are counted."""

    connections, resets, refused = 5, 4, 3

    def __init__(self) -> None:
        self.errors = {1: 2}


class Clients:
    """A listener, as far as it is counted."""

    open_connections = 3
    accepted = 9
    turned_away = 1

    def __init__(self) -> None:
        self.malformed = {400: 2}
        self.failed_handshakes = {"timeout": 4}
        self.http2 = Http2()


class Page:
    """Everything the page is made of."""

    def __init__(self) -> None:
        self.http, self.router = HttpStats(), RouterStats()
        self.workers: list[Worker] = []
        self.ages: list[float] = []
        self.admission: list[Family] = []
        self.realtime = RealtimeStats()
        self.policies: list[Policy] = []
        sources = Sources(
            *(self.http, self.router, LoopStats(0.1), Clients()),
            *(lambda: self.workers, lambda: self.ages),
            lambda: {"http://w": (4, 2)},
            *(lambda: 7, lambda: 8),
            more=[
                lambda: self.admission,
                lambda: overload_families(self.router, 0),
                PolicyFamilies(lambda: self.policies).collect,
                lambda: discovery_families(
                    DiscoveryStats("file", lambda secs: None), Histogram((1.0,))
                ),
                self.realtime.families,
                lambda: fallback_families({("big", "small"): 1}),
            ],
        )
        self.exposition = Exposition(sources, "1.2.3")

    def text(self) -> str:
        return self.exposition.page(self.exposition.snapshot()).decode()

    def read(self) -> Samples:
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.text())
            for sample in family.samples
        }


def key(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def worker(url: str) -> Worker:
    one = Worker("id", url)
    one.models = [{"id": "m"}]
    one.state = WorkerState.READY
    return one


def test_http_counters_carry_the_contracts_labels() -> None:
    page = Page()
    counted = page.http.of("POST", "/v1/chat/completions")
    counted.requests += 1
    counted.responses[503, "no_available_workers"] += 1
    found = page.read()
    path = "/v1/chat/completions"
    assert found[key("smg_http_requests_total", method="POST", path=path)] == 1
    name = "smg_http_responses_total"
    labels = {"path": path, "status_code": "503", "error_code": "no_available_workers"}
    assert found[key(name, **labels)] == 1


def test_connections_resends_and_pools_are_there_from_the_start() -> None:
    found = Page().read()
    assert found[key("smg_client_connections_open")] == 3
    assert found[key("smg_client_connections_refused_total")] == 1
    assert found[key("smg_client_malformed_total", status_code="400")] == 2
    assert found[key("smg_client_tls_handshake_failures_total", reason="timeout")] == 4
    assert found[key("smg_client_http2_connections_total")] == 5
    assert found[key("smg_client_http2_resets_total")] == 4
    assert found[key("smg_client_http2_refused_total")] == 3
    assert found[key("smg_client_http2_errors_total", code="1")] == 2
    resends = key("smg_router_upstream_send_retries_total", router_type="http")
    assert found[resends] == 7
    idle = key("smg_upstream_connections", worker="http://w", state="idle")
    assert found[idle] == 4
    assert found[key("smg_log_lines_dropped_total")] == 8
    assert found[key("smg_build_info", version="1.2.3")] == 1


def test_ages_fall_into_their_buckets_and_every_bucket_is_there() -> None:
    page = Page()
    page.ages = [1.0, 30.0, 31.0, 100_000.0]
    name = "smg_http_inflight_request_age_count"
    ages = {labels: value for (n, labels), value in page.read().items() if n == name}
    assert len(ages) == 12
    assert ages[(("gt", "0"), ("le", "30"))] == 2
    assert ages[(("gt", "30"), ("le", "60"))] == 1
    assert ages[(("gt", "86400"), ("le", "+Inf"))] == 1


def test_the_series_of_a_removed_worker_vanish() -> None:
    page = Page()
    page.workers = [worker("http://a"), worker("http://b")]
    page.workers[0].requests["m"] = 5
    page.workers[0].load = 2
    found = page.read()
    assert found[key("smg_worker_health", worker="http://a")] == 1
    assert found[key("smg_worker_requests_active", worker="http://a")] == 2
    assert found[key("smg_worker_requests_total", worker="http://a", model="m")] == 5
    size = {"worker_type": "regular", "connection_mode": "http", "model": "m"}
    assert found[key("smg_worker_pool_size", **size)] == 2
    del page.workers[0]
    assert not [k for k in page.read() if ("worker", "http://a") in k[1]]


def test_engine_gauges_come_from_the_last_load_report() -> None:
    page = Page()
    page.workers = [worker("http://a")]
    page.workers[0].last_report = {"loads": [{"dp_rank": 1, "num_running_reqs": 6}]}
    labels = {"worker": "http://a", "model": "m", "dp_rank": "1"}
    found = page.read()
    assert found[key("smg_engine_running_requests", **labels)] == 6
    assert found[key("smg_engine_token_usage", **labels)] == 0


def test_engine_gauges_of_a_worker_that_left_ready_are_minus_1() -> None:
    page = Page()
    page.workers = [worker("http://a")]
    page.workers[0].last_report = {"loads": [{"dp_rank": 0, "num_running_reqs": 6}]}
    page.workers[0].state = WorkerState.NOT_READY
    labels = {"worker": "http://a", "model": "m", "dp_rank": "0"}
    assert page.read()[key("smg_engine_running_requests", **labels)] == -1


def test_label_values_cannot_break_the_page() -> None:
    page = Page()
    page.workers = [worker('http://a"} 1\nevil')]
    assert not [name for name, _ in page.read() if name.startswith("evil")]


def test_a_lone_surrogate_in_a_model_name_does_not_break_the_page() -> None:
    page = Page()
    page.workers = [worker("http://a")]
    page.workers[0].models = [{"id": "bad\ud800"}]
    page.workers[0].requests["bad\ud800"] = 1
    assert page.read()[key("smg_worker_health", worker="http://a")] == 1


def test_a_snapshot_shows_the_numbers_as_they_were() -> None:
    page = Page()
    page.http.of("GET", "/v1/models").heads.observe(0.02)
    page.http.of("GET", "/v1/models").requests += 1
    page.workers = [worker("http://a")]
    families = page.exposition.snapshot()
    before = [family.metric() for family in families]
    page.http.of("GET", "/v1/models").heads.observe(0.02)
    page.http.of("GET", "/v1/models").requests += 1
    page.workers[0].load = 3
    assert [family.metric() for family in families] == before
    # A page asked for later is another one.
    assert page.text() != page.exposition.page(families).decode()


def test_body_paths_and_early_releases_are_counted() -> None:
    page = Page()
    page.router.count_body_path(True, "pure_forward")
    page.router.count_body_path(False, "retryable")
    page.router.count_body_path(False, "retryable")
    page.router.released_early_bytes = 1_500_178
    found = page.read()
    name = "smg_router_request_body_path_total"
    assert found[key(name, path="streamed", reason="pure_forward")] == 1
    assert found[key(name, path="buffered", reason="retryable")] == 2
    released = key("smg_router_request_buffers_released_early_bytes_total")
    assert found[released] == 1_500_178
