"""A gateway process from its start on: what it says, shows and leaves behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import time
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.conftest import SIMULATED
from tests.e2e.process import (
    HOST,
    MODEL,
    RunningGateway,
    eventually,
    free_ports,
    is_refused,
)


def test_the_banner_says_what_is_simulated_and_what_is_unprotected(
    gateway: RunningGateway,
) -> None:
    said = gateway.out
    assert gateway.url in said
    assert gateway.metrics_url in said
    for worker in gateway.get("/workers")["workers"]:
        assert f"{worker['url']} (simulated: answers are made up)" in said
    assert "no credentials are asked for" in said
    assert "Only programs on this machine reach them." in said
    assert said.isascii() and "\x1b" not in said


@pytest.mark.parametrize("flag", ["--port", "--prometheus-port", "--health-check-port"])
def test_a_taken_port_is_one_line_that_names_the_flag(
    flag: str, tmp_path: Path
) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        with RunningGateway(tmp_path, flag, str(port)) as started:
            assert started.wait() == 1
            assert started.out == ""
            [line] = started.err.splitlines()
            assert line.startswith(
                f"smg launch: {flag}: cannot listen on {HOST}:{port}"
            )


def test_a_log_folder_that_cannot_be_written_is_one_line_that_names_the_flag(
    tmp_path: Path,
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with RunningGateway(tmp_path, "--log-dir", str(blocked)) as started:
        assert started.wait() == 1
        [line] = started.err.splitlines()
        assert line.startswith("smg launch: --log-dir: cannot write to")


def children_of(pid: int) -> list[int]:
    """The processes whose parent is ``pid``."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may hold blanks and brackets itself.
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry.parent.name))
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that only waits to be reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_simulated_workers_do_not_outlive_a_killed_gateway(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, *SIMULATED) as running:
        running.wait_until()
        urls = [worker["url"] for worker in running.get("/workers")["workers"]]
        children = children_of(running.child.pid)
        assert children and urls
        running.signal(signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
        eventually(lambda: not any(map(is_alive, children)))
        assert all(is_refused(int(url.rpartition(":")[2])) for url in urls)


def test_every_log_line_is_json_whatever_clients_send(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, *SIMULATED, "--log-json") as running:
        running.wait_until()
        assert running.chat().status_code == 200
        hostile = {"X-Request-ID": 'a"},{"level":"ERROR', "User-Agent": 'b"}'}
        path = "/%0a%22\\?secret=hunter2"
        httpx.get(running.url + path, headers=hostile, trust_env=False)
        assert running.stop() == 0
        lines = [json.loads(line) for line in running.err.splitlines()]
        assert all({"timestamp", "level", "target"} <= line.keys() for line in lines)
        spans = [one["span"] for one in lines if one["target"] == "smg::response"]
        assert [(one["path"][:5], one["status_code"]) for one in spans] == [
            ("/v1/c", 200),
            ("/%0a%", 404),
        ]
        assert "hunter2" not in running.err


def test_a_log_nobody_reads_stops_nothing_and_its_lines_stay_whole(
    tmp_path: Path,
) -> None:
    os.mkfifo(tmp_path / "err")
    reader = os.open(tmp_path / "err", os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    with RunningGateway(tmp_path, *SIMULATED, "--log-json") as running:
        running.wait_until()
        for _ in range(60):  # more lines than the pipe takes
            assert running.ask("GET", "/v1/models").status_code == 200
        running.signal(signal.SIGTERM)
        read = b""
        while running.child.poll() is None:
            with contextlib.suppress(BlockingIOError):
                read += os.read(reader, 65536)
            time.sleep(0.001)
        read += os.read(reader, 65536)
    os.close(reader)
    lines = [json.loads(line) for line in read.splitlines()]
    ended = [line["span"] for line in lines if line["target"] == "smg::response"]
    assert sum(span["path"] == "/v1/models" for span in ended) == 60
    assert any("drained" in line["message"] for line in lines)


def test_the_log_level_of_the_flag_is_kept(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, *SIMULATED, "--log-level", "error") as running:
        running.wait_until()
        assert running.chat().status_code == 200
        assert running.stop() == 0
        assert running.err == ""


# As the parser names them: a counter's family is without its _total.
FAMILIES = {
    *("smg_build_info", "smg_http_requests", "smg_http_responses"),
    *("smg_http_request_duration_seconds", "smg_http_connections_active"),
    *("smg_http_inflight_request_age_count", "smg_client_connections_open"),
    *("smg_client_connections", "smg_client_connections_refused"),
    *("smg_client_malformed", "smg_router_requests", "smg_router_request_errors"),
    *("smg_router_request_duration_seconds", "smg_router_upstream_responses"),
    *("smg_router_upstream_send_retries", "smg_upstream_connections"),
    *("smg_worker_pool_size", "smg_worker_requests_active", "smg_worker_health"),
    *("smg_worker_http2", "smg_worker_requests", "smg_worker_selection"),
    *("smg_worker_errors", "smg_worker_health_checks", "smg_engine_load_polls"),
    *("smg_engine_running_requests", "smg_engine_waiting_requests"),
    *("smg_engine_token_usage", "smg_engine_gen_throughput"),
    *("smg_engine_cache_hit_rate", "smg_event_loop_delay_seconds"),
    *("smg_event_loop_stalls", "process_resident_memory_bytes"),
}


def families(gateway: RunningGateway) -> dict[str, Metric]:
    """The metrics page, by family."""
    page = gateway.ask("GET", gateway.metrics_url)
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {one.name: one for one in text_string_to_metric_families(page.text)}


def total(gateway: RunningGateway, family: str, **labels: str) -> float:
    """The sum of a family's samples that have these labels."""
    return sum(
        sample.value
        for sample in families(gateway)[family].samples
        if labels.items() <= sample.labels.items()
    )


def test_the_metrics_page_parses_and_has_every_family(gateway: RunningGateway) -> None:
    gateway.chat()
    gateway.chat(model="none")
    missing = FAMILIES - families(gateway).keys()
    assert not missing


def test_a_chat_is_counted_at_every_layer(gateway: RunningGateway) -> None:
    def counted() -> list[float]:
        path = "/v1/chat/completions"
        routed = {"model": MODEL, "endpoint": "chat", "streaming": "false"}
        return [
            total(gateway, "smg_http_requests", path=path, method="POST"),
            total(gateway, "smg_http_responses", path=path, status_code="200"),
            total(gateway, "smg_router_requests", **routed),
            total(gateway, "smg_router_upstream_responses", status_code="200"),
            total(gateway, "smg_worker_requests", model=MODEL),
            total(gateway, "smg_worker_selection", policy="cache_aware"),
        ]

    before = counted()
    gateway.chat()
    assert counted() == [one + 1 for one in before]
    assert total(gateway, "smg_http_connections_active") == 0


def test_the_metrics_listener_has_nothing_else(gateway: RunningGateway) -> None:
    url = gateway.metrics_url.removesuffix("/metrics")
    answer = gateway.ask("GET", f"{url}/workers")
    assert (answer.status_code, answer.content) == (404, b"")


def test_a_bad_flag_is_one_line_and_its_status(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, "--shutdown-grace-period-sec", "5") as started:
        assert started.wait() == 2
        [line] = started.err.splitlines()
        assert "--shutdown-grace-period-secs" in line


def test_the_soft_limit_on_open_files_is_raised(gateway: RunningGateway) -> None:
    limits = Path(f"/proc/{gateway.child.pid}/limits").read_text().splitlines()
    [line] = [one for one in limits if one.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert soft == hard


def test_it_serves_many_workers_as_one(gateway: RunningGateway) -> None:
    """Prompts that no worker knows go to any of them."""
    routed = {
        gateway.chat(f"{n} is new").headers["x-smg-routed-worker-id"] for n in range(40)
    }
    urls = {worker["url"] for worker in gateway.get("/workers")["workers"]}
    assert routed == urls and len(urls) == 2


def test_ports_of_a_stopped_gateway_are_free_at_once(tmp_path: Path) -> None:
    [port] = free_ports(1)
    for _ in range(2):
        with RunningGateway(tmp_path, "--port", str(port)) as running:
            running.wait_until(f"http://{HOST}:{port}/liveness")
            assert running.stop() == 0
