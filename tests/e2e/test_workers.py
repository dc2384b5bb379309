"""Workers come and go while a gateway process runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import (
    HOST,
    MODEL,
    RunningGateway,
    eventually,
    free_ports,
    simulated_workers,
)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway that was started without a worker."""
    flags = ("--drain-settle-secs", "1", "--load-monitor-interval", "1")
    with RunningGateway(tmp_path, *flags) as running:
        running.wait_until("/liveness")
        yield running
        assert running.stop() == 0
        assert "Traceback" not in running.err


def register(gateway: RunningGateway, url: str) -> str:
    """Add a worker and wait until it is ready; its id."""
    answer = gateway.ask("POST", "/workers", {"url": url})
    assert answer.status_code == 202, answer.text
    worker_id = str(answer.json()["worker_id"])
    eventually(lambda: shown(gateway, worker_id)["status"] == "ready")
    return worker_id


def shown(gateway: RunningGateway, worker_id: str) -> dict[str, Any]:
    """A worker as the API shows it."""
    return dict(gateway.get(f"/workers/{worker_id}"))


def test_a_worker_that_comes_up_late_is_used_when_it_is_there(tmp_path: Path) -> None:
    [port] = free_ports(1)
    flags = ("--worker-urls", f"http://{HOST}:{port}")
    with RunningGateway(tmp_path, *flags) as running:
        running.wait_until("/liveness")
        answer = running.ask("GET", "/readiness")
        assert answer.status_code == 503
        assert answer.json()["reason"] == "insufficient healthy workers"
        assert running.get("/workers")["workers"] == []
        assert running.chat().status_code == 404
        with simulated_workers(port):
            running.wait_until("/readiness", 10.0)
            assert running.chat().status_code == 200
            assert running.stop() == 0


def test_a_posted_worker_is_served_by_and_a_deleted_one_is_not(
    empty: RunningGateway,
) -> None:
    assert empty.chat().status_code == 404
    with simulated_workers() as engines:
        [url] = engines.urls
        worker_id = register(empty, url)
        assert empty.chat().headers["x-smg-routed-worker-id"] == url
        again = empty.ask("POST", "/workers", {"url": url})
        assert (again.status_code, again.json()["code"]) == (
            409,
            "WORKER_ALREADY_EXISTS",
        )
        assert empty.ask("DELETE", f"/workers/{worker_id}").status_code == 202
        eventually(lambda: empty.get("/workers")["total"] == 0)
        assert empty.chat().status_code == 404
        assert empty.ask("GET", f"/workers/{worker_id}").status_code == 404


def test_a_deleted_worker_completes_its_stream_and_gets_nothing_new(
    empty: RunningGateway,
) -> None:
    with simulated_workers() as engines:
        [url] = engines.urls
        worker_id = register(empty, url)
        # At 50 tokens a second it outlives the worker's place in the list.
        with empty.stream(ignore_eos=True, max_tokens=100) as pieces:
            body = next(pieces)
            assert empty.ask("DELETE", f"/workers/{worker_id}").status_code == 202
            view = shown(empty, worker_id)
            assert (view["status"], view["load"]) == ("draining", 1)
            refused = empty.chat()
            assert refused.status_code == 503
            assert refused.headers["x-smg-error-code"] == "no_available_workers"
            eventually(lambda: empty.get("/workers")["total"] == 0)
            body += b"".join(pieces)
        assert body.endswith(b"data: [DONE]\n\n")
        assert b'"finish_reason":"length"' in body
        assert b"stream_error" not in body


def test_a_worker_that_died_is_an_error_and_no_hang(empty: RunningGateway) -> None:
    with simulated_workers() as engines:
        register(empty, engines.urls[0])
    answer = empty.chat()
    assert answer.status_code == 500
    assert answer.headers["x-smg-error-code"] == "call_upstream_connection_failed"


def test_a_worker_that_dies_amid_a_stream_leaves_a_notice(
    empty: RunningGateway,
) -> None:
    with simulated_workers() as engines:
        register(empty, engines.urls[0])
        with empty.stream(ignore_eos=True, max_tokens=8000) as pieces:
            body = next(pieces)
            engines.kill()
            body += b"".join(pieces)
    *_, error, done, nothing = body.split(b"\n\n")
    assert (done, nothing) == (b"data: [DONE]", b"")
    assert b'"type":"stream_error"' in error


def test_caches_are_flushed_on_every_worker(empty: RunningGateway) -> None:
    with simulated_workers(count=2) as engines:
        for url in engines.urls:
            register(empty, url)
        answer = empty.ask("POST", "/flush_cache")
        assert answer.status_code == 200
        assert answer.json()["status"] == "success"
        assert answer.json()["workers_flushed"] == 2


def test_loads_are_what_the_engines_report(empty: RunningGateway) -> None:
    with simulated_workers(count=2) as engines:
        for url in engines.urls:
            register(empty, url)

        def running() -> list[int]:
            loads = empty.get(f"/loads?model={MODEL}")["loads"]
            return sorted(load["num_running_reqs"] for load in loads)

        eventually(lambda: running() == [0, 0])
        with empty.stream(ignore_eos=True, max_tokens=8000) as pieces:
            next(pieces)
            eventually(lambda: running() == [0, 1])
        eventually(lambda: running() == [0, 0])
