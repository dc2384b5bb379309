"""The metrics page as text: what a scraper, or a person with curl, gets to see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from smgproxy.admission.classes import CLASS_NAMES
from smgproxy.admission.limiter import Limiter
from smgproxy.admission.scheduler import Scheduler
from smgproxy.control.metrics import CONTENT_TYPE
from smgproxy.telemetry.admission_metrics import limiter_families, scheduler_families
from smgproxy.telemetry.stats import DURATION_BOUNDS, LOOP_BOUNDS, Histogram
from tests.telemetry.test_metrics_page import Page, worker

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
ROUTED = (
    *('router_type="http"', 'backend_type="regular"', 'connection_mode="http"'),
    *('model="m"', 'endpoint="chat"'),
)
# Families of the contract that are there before anything has happened.
FROM_THE_START = """
smg_build_info smg_http_connections_active smg_http_inflight_request_age_count
smg_client_connections_open smg_client_connections smg_client_connections_refused
smg_router_upstream_send_retries smg_event_loop_delay_seconds smg_event_loop_stalls
smg_log_lines_dropped
""".split()
# Those that appear with their first event.
WITH_EVENTS = """
smg_http_requests smg_http_responses smg_http_request_duration_seconds
smg_client_malformed smg_router_requests smg_router_request_errors
smg_router_request_duration_seconds smg_router_upstream_responses
smg_upstream_connections smg_worker_pool_size smg_worker_requests_active
smg_worker_health smg_worker_http2 smg_worker_requests smg_worker_selection
smg_worker_errors smg_worker_health_checks smg_engine_running_requests
smg_engine_waiting_requests smg_engine_token_usage smg_engine_gen_throughput
smg_engine_cache_hit_rate smg_engine_load_polls
smg_admission_inflight smg_admission_queue_depth smg_admission_queue_rejected
smg_http_rate_limit smg_scheduler_admit smg_scheduler_queue_wait_seconds
smg_scheduler_preemption smg_scheduler_clamp smg_scheduler_unknown_priority_value
smg_scheduler_starvation_promotion smg_scheduler_inflight smg_scheduler_queue_depth
smg_scheduler_queue_size_limit smg_scheduler_utilization
smg_scheduler_class_capacity_pressure
""".split()


def lines_of(page: Page, name: str) -> list[str]:
    """The samples of one name, as they stand on the page."""
    text = page.text()
    return [line for line in text.splitlines() if re.match(rf"{name}[ {{]", line)]


def families(page: Page) -> set[str]:
    """The names of all families of ours that have a sample."""
    text = page.text()
    return set(re.findall(r"^(smg_\w+?)(?:_total|_bucket)?[ {]", text, re.MULTILINE))


def busy_page() -> Page:
    """A page on which every family has a sample."""
    page = Page()
    page.http.of("POST", "/v1/chat/completions").requests += 1
    page.http.of("POST", "/v1/chat/completions").responses[200, ""] += 1
    page.http.of("POST", "/v1/chat/completions").heads.observe(0.02)
    page.router.requests["m", "chat", True] += 1
    page.router.count_error("m", "chat", "timeout")
    page.router.upstream[504, "call_upstream_timeout"] += 1
    page.router.durations["m", "chat"].observe(0.02)
    one = worker("http://a")
    one.requests["m"] = one.selections["m", "random"] = 1
    one.last_report = {"loads": [{"dp_rank": 0}]}
    page.workers = [one]
    scheduler = Scheduler(1024)
    scheduler.stats.count_preemption("bulk", "system")
    scheduler.stats.count_clamp("anonymous", "system", "default")
    scheduler.stats.count_unknown_priority("anonymous")
    waits = [Histogram((1.0,)) for _ in CLASS_NAMES]
    page.admission = [
        *limiter_families(Limiter(1, 1, 1)),
        *scheduler_families(scheduler, waits),
    ]
    return page


def test_the_content_type_is_the_contracts() -> None:
    assert CONTENT_TYPE == b"text/plain; version=0.0.4; charset=utf-8"


def sample(name: str, *labels: str, number: str = "1.0") -> str:
    """A sample as prometheus_client writes it: labels in the order of their names."""
    return f"{name}{{{','.join(sorted(labels))}}} {number}"


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("smg_router_requests_total", (*ROUTED, 'streaming="true"')),
        ("smg_router_request_errors_total", (*ROUTED, 'error_type="timeout"')),
        (
            "smg_router_upstream_responses_total",
            (
                *('router_type="http"', 'status_code="504"'),
                'error_code="call_upstream_timeout"',
            ),
        ),
        (
            "smg_worker_selection_total",
            (
                *('worker_type="regular"', 'connection_mode="http"'),
                *('model="m"', 'policy="random"'),
            ),
        ),
        (
            "smg_http_responses_total",
            ('path="/v1/chat/completions"', 'status_code="200"', 'error_code=""'),
        ),
        ("smg_router_request_duration_seconds_count", ROUTED),
    ],
)
def test_a_sample_has_the_name_and_the_labels_of_the_contract(
    name: str, labels: tuple[str, ...]
) -> None:
    assert lines_of(busy_page(), name) == [sample(name, *labels)]


def test_help_and_type_precede_each_family() -> None:
    text = busy_page().text()
    assert (
        "# HELP smg_worker_health 1 ready, 0 otherwise\n"
        "# TYPE smg_worker_health gauge\n"
        'smg_worker_health{worker="http://a"} 1.0\n'
    ) in text


def test_counters_end_in_total_and_nothing_else_does() -> None:
    text = busy_page().text()
    for name, kind in re.findall(r"^# TYPE (smg_\w+) (\w+)$", text, re.MULTILINE):
        assert name.endswith("_total") == (kind == "counter"), name


def test_what_is_published_at_0_is_there_before_anything_happened() -> None:
    assert families(Page()) >= set(FROM_THE_START)


def test_every_family_appears_with_its_first_event() -> None:
    assert families(busy_page()) >= {*FROM_THE_START, *WITH_EVENTS}


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("smg_http_request_duration_seconds_bucket", DURATION_BOUNDS),
        ("smg_router_request_duration_seconds_bucket", DURATION_BOUNDS),
        ("smg_event_loop_delay_seconds_bucket", LOOP_BOUNDS),
    ],
)
def test_buckets_are_the_contracts(name: str, bounds: tuple[float, ...]) -> None:
    edges = [
        found[1]
        for line in lines_of(busy_page(), name)
        if (found := re.search(r'le="([^"]+)"', line))
    ]
    assert [float(edge) for edge in edges] == [*bounds, float("inf")]


def test_the_documents_name_every_family_and_no_other() -> None:
    documented = set(re.findall(r"^\| `(smg_\w+)` \|", DOCS.read_text(), re.MULTILINE))
    page = busy_page().text()
    assert documented == set(re.findall(r"^# TYPE (smg_\w+) ", page, re.MULTILINE))
