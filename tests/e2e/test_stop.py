"""How a gateway process stops: nothing is cut in silence, and nothing drags on."""

from __future__ import annotations

import http.client
import json
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.process import (
    HOST,
    RunningGateway,
    chat_body,
    eventually,
    free_ports,
    is_refused,
)

# 50 tokens a second: a stream of 130 lasts 2.6 s.
WORKERS = (
    *("--simulated-workers", "1", "--simulated-ttft-ms", "5"),
    *("--simulated-tokens-per-second", "50"),
)
# A settle window of two seconds.
GRACE_4 = ("--shutdown-grace-period-secs", "4")
LONGER_THAN_THE_SETTLE = {"ignore_eos": True, "max_tokens": 130}
ENDLESS = {"ignore_eos": True, "max_tokens": 8000}


def is_draining(running: RunningGateway) -> bool:
    return bool(running.ask("GET", "/readiness").status_code == 503)


def events_of(body: bytes) -> list[bytes]:
    *events, rest = body.split(b"\n\n")
    assert rest == b"", "the stream ends between two events"
    return events


def assert_ends_with_a_notice(body: bytes) -> None:
    """The contract's error event and [DONE], so that the client can tell."""
    *_, error, done = events_of(body)
    assert done == b"data: [DONE]"
    assert json.loads(error.removeprefix(b"data: ")) == {
        "error": {
            "message": "Stream error: the gateway is shutting down",
            "type": "stream_error",
        }
    }


def test_a_running_stream_is_completed_and_newcomers_served_until_the_settle(
    tmp_path: Path,
) -> None:
    with RunningGateway(tmp_path, *WORKERS, *GRACE_4) as running:
        running.wait_until()
        with running.stream(**LONGER_THAN_THE_SETTLE) as pieces:
            body = next(pieces)
            running.signal(signal.SIGTERM)
            eventually(lambda: is_draining(running))
            assert running.chat(max_tokens=1).status_code == 200
            eventually(lambda: is_refused(running.port), 4.0)
            assert running.child.poll() is None
            body += b"".join(pieces)
        *events, done = events_of(body)
        assert done == b"data: [DONE]"
        assert b'"finish_reason":"length"' in events[-1]
        assert sum(b'"content":" ' in event for event in events) == 129
        assert running.wait() == 0


def test_a_gateway_ends_as_soon_as_its_last_stream_does(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, *WORKERS) as running:
        running.wait_until()
        with running.stream(ignore_eos=True, max_tokens=25) as pieces:
            next(pieces)
            running.signal(signal.SIGTERM)
            assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
            ended = time.monotonic()
        assert running.wait() == 0
        # Of a settle window of five seconds and a grace period of 180.
        assert time.monotonic() - ended < 2.5


def test_probes_say_draining_and_answer_until_the_end(tmp_path: Path) -> None:
    [port] = free_ports(1)
    probes = ("--health-check-port", str(port))
    with RunningGateway(tmp_path, *WORKERS, *GRACE_4, *probes) as running:
        running.wait_until()
        probe = f"http://{HOST}:{port}"
        assert running.get(f"{probe}/readiness")["status"] == "ready"
        with running.stream(**LONGER_THAN_THE_SETTLE) as pieces:
            next(pieces)
            running.signal(signal.SIGTERM)
            eventually(lambda: is_draining(running))
            draining = {"status": "not ready", "reason": "draining"}
            for base in (running.url, probe):
                assert running.ask("GET", f"{base}/readiness").json() == draining
                assert running.ask("GET", f"{base}/health").status_code == 200
            eventually(lambda: is_refused(running.port), 4.0)
            assert running.ask("GET", f"{probe}/readiness").json() == draining
            for path in ("/health", "/liveness"):
                assert running.ask("GET", probe + path).status_code == 200
            assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
        assert running.wait() == 0
        assert is_refused(port)


def test_an_idle_gateway_with_a_probe_port_waits_out_the_settle(
    tmp_path: Path,
) -> None:
    [port] = free_ports(1)
    flags = ("--health-check-port", str(port), "--shutdown-grace-period-secs", "2")
    with RunningGateway(tmp_path, *WORKERS, *flags) as running:
        running.wait_until()
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began > 0.9


def test_a_given_settle_flag_is_waited_out_without_a_probe_port(
    tmp_path: Path,
) -> None:
    with RunningGateway(tmp_path, *WORKERS, "--drain-settle-secs", "1") as running:
        running.wait_until()
        began = time.monotonic()
        running.signal(signal.SIGTERM)
        eventually(lambda: is_draining(running))
        assert running.chat(max_tokens=1).status_code == 200
        assert running.wait() == 0
        assert time.monotonic() - began > 0.9


def test_a_settle_flag_of_0_is_no_settle_window(tmp_path: Path) -> None:
    [port] = free_ports(1)
    flags = ("--drain-settle-secs", "0", "--health-check-port", str(port))
    with RunningGateway(tmp_path, *WORKERS, *flags) as running:
        running.wait_until()
        with running.stream(ignore_eos=True, max_tokens=25) as pieces:
            next(pieces)
            running.signal(signal.SIGTERM)
            eventually(lambda: is_refused(running.port), 2.0)
            assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
        assert running.wait() == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)]
)
def test_an_idle_gateway_stops_at_once(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    with RunningGateway(tmp_path, *WORKERS) as running:
        running.wait_until()
        began = time.monotonic()
        running.signal(number)
        assert running.wait() == status
        assert time.monotonic() - began < 2.5
        assert "Traceback" not in running.err


def test_an_idle_client_connection_does_not_keep_a_gateway(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, *WORKERS) as running:
        running.wait_until()
        client = http.client.HTTPConnection(HOST, running.port, timeout=10)
        client.request("GET", "/health")
        assert client.getresponse().read() == b"OK"
        began = time.monotonic()
        assert running.stop() == 0
        assert time.monotonic() - began < 2.5
        client.close()


def test_a_second_signal_ends_a_stream_at_once_with_a_notice(tmp_path: Path) -> None:
    with RunningGateway(tmp_path, *WORKERS) as running:
        running.wait_until()
        with running.stream(**ENDLESS) as pieces:
            body = next(pieces)
            running.signal(signal.SIGTERM)
            eventually(lambda: is_draining(running))
            began = time.monotonic()
            running.signal(signal.SIGTERM)
            body += b"".join(pieces)
        assert_ends_with_a_notice(body)
        assert running.wait() == 0
        assert time.monotonic() - began < 2.5


def test_a_request_without_an_answer_gets_503_from_a_second_signal(
    tmp_path: Path,
) -> None:
    with RunningGateway(tmp_path, *WORKERS) as running:
        running.wait_until()
        client = http.client.HTTPConnection(HOST, running.port, timeout=10)
        body = json.dumps(chat_body("hi", **ENDLESS))
        kind = {"content-type": "application/json"}
        client.request("POST", "/v1/chat/completions", body, kind)
        eventually(lambda: running.get("/workers")["workers"][0]["load"] == 1)
        running.signal(signal.SIGINT)
        eventually(lambda: is_draining(running))
        running.signal(signal.SIGTERM)
        answer = client.getresponse()
        assert answer.status == 503
        assert answer.getheader("x-smg-error-code") == "gateway_shutting_down"
        assert answer.getheader("connection") == "close"
        assert json.loads(answer.read())["error"]["code"] == "gateway_shutting_down"
        client.close()
        # The first signal decides the status.
        assert running.wait() == 130


def test_a_stream_that_outlasts_the_grace_period_ends_with_a_notice(
    tmp_path: Path,
) -> None:
    grace = ("--shutdown-grace-period-secs", "2")
    with RunningGateway(tmp_path, *WORKERS, *grace) as running:
        running.wait_until()
        with running.stream(**ENDLESS) as pieces:
            body = next(pieces)
            began = time.monotonic()
            running.signal(signal.SIGTERM)
            body += b"".join(pieces)
        took = time.monotonic() - began
        assert_ends_with_a_notice(body)
        assert running.wait() == 0
        assert 1.5 < took < 4.5
