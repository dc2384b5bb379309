"""Errors that transcriptions, decisions and the realtime routes have in common.

Each in all its parts, and whose fault it was. What a route has alone is in a file of
its own.
"""

from __future__ import annotations

from typing import Any

import pytest
import ujson

from smgproxy.admission.keys import Keys, Secret
from smgproxy.fleet.worker import WorkerState
from tests.e2e import forms
from tests.e2e.admitting import Waiting, limits_of
from tests.e2e.asking import check_envelope
from tests.e2e.stage import Stage, play
from tests.e2e.test_budgets import KEYS, rules
from tests.e2e.test_errors import answer_half, reset, send_rubbish
from tests.e2e.test_keys import bearer
from tests.fakes.client import post
from tests.fakes.websocket import RealtimeWorker, upgrade
from tests.fakes.worker import Connection, Received, Script

LIMIT = 500_000
_SDP = b"v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"


def _json(path: str, body: dict[str, Any], headers: str = "") -> bytes:
    return post(ujson.dumps(body).encode(), path, headers)


def request_of(route: str, model: str = "m", headers: str = "", pad: int = 0) -> bytes:
    """A good request to a route, for a model; with so many bytes that mean nothing."""
    more = {"zz": "x" * pad} if pad else {}
    realtime = f"/v1/realtime/{route}"
    if route in ("transcription", "transcription that is passed on"):
        size = pad or (200_000 if "passed" in route else 10)
        fields = [("model", model.encode()), ("file", b"x" * size)]
        return forms.ask(*fields, headers=headers)
    if route == "decisions":
        questions = [{"type": "predicate", "instructions": "Is it?"}]
        body = {"model": model, "input": "text", "questions": questions, **more}
        return _json("/v1/decisions", body, headers)
    if route == "client_secrets":
        return _json(realtime, {"session": {"model": model}, **more}, headers)
    if route == "calls":
        kind = f"Content-Type: application/sdp\r\n{headers}"
        sent = post(_SDP + b"a=x\r\n" * pad, f"{realtime}?model={model}", kind)
        return sent.replace(b"Content-Type: application/json\r\n", b"", 1)
    if route == "socket":
        return upgrade(f"?model={model}", headers)
    return _json(realtime, {"model": model, **more}, headers)


ROUTES = [
    *("transcription", "transcription that is passed on", "decisions", "socket"),
    *("sessions", "client_secrets", "transcription_sessions", "calls"),
]
BODIES = [route for route in ROUTES if route != "socket"]
every_route = pytest.mark.parametrize("route", ROUTES)
every_body = pytest.mark.parametrize("route", BODIES)


def play_one(scene: Any, *scripts: Script, **rooms: Any) -> None:
    """A scene with one worker, which also does realtime."""
    play(scene, *scripts, kind=RealtimeWorker, **rooms)


# -- the gateway's own ---------------------------------------------------------------


@every_route
def test_without_a_key_it_is_401_with_nothing_in_it(route: str) -> None:
    async def scene(stage: Stage) -> None:
        for model in ("m", "nobody"):
            answer = await stage.ask(request_of(route, model))
            assert (answer.status, answer.body) == (401, b"")
            assert answer.get("www-authenticate") == 'Bearer realm="data-plane"'
            assert answer.get("x-smg-error-code") is None
        assert stage.worker.received == []

    play_one(scene, keys=Keys([Secret("k")]))


@every_route
def test_a_model_that_nobody_serves_is_404(route: str) -> None:
    async def scene(stage: Stage) -> None:
        answer = await stage.ask(request_of(route, "nobody"))
        message = check_envelope(answer, 404, "model_not_found")
        assert message == "No worker available for model 'nobody'"
        assert stage.worker.received == []

    play_one(scene)


@every_route
def test_workers_that_are_down_are_503(route: str) -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        answer = await stage.ask(request_of(route))
        check_envelope(answer, 503, "no_available_workers", retry_after="1")
        assert answer.get("x-smg-routed-worker-id") is None

    play_one(scene)


@every_route
def test_an_open_circuit_is_503(route: str) -> None:
    async def scene(stage: Stage) -> None:
        assert (await stage.ask(request_of(route))).status == 500
        assert stage.records[0].breaker.failures == 1
        answer = await stage.ask(request_of(route))
        check_envelope(answer, 503, "no_available_workers", retry_after="1")

    play_one(scene, reset, breaker={"cb_failure_threshold": 1})


@every_body
def test_a_body_over_the_limit_is_413_before_anything_is_read_of_it(
    route: str,
) -> None:
    async def scene(stage: Stage) -> None:
        answer = await stage.ask(request_of(route, "nobody", pad=LIMIT))
        message = check_envelope(answer, 413, "request_body_too_large")
        assert message == "Request body exceeded the payload limit (max_payload_size)"

    play_one(scene, dispatch={"max_payload_size": LIMIT})


@every_route
def test_without_a_permit_it_is_429(route: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        other = await stage.client()
        await other.send(post())
        await worker.has(1)
        answer = await stage.ask(request_of(route))
        check_envelope(answer, 429, "admission_queue_full", retry_after="2")
        worker.go()
        assert (await other.answer()).status == 200
        other.close()

    play_one(scene, worker.script, limiter=limits_of(1, 0))


@every_route
def test_a_tenant_without_budget_gets_429(route: str) -> None:
    async def scene(stage: Stage) -> None:
        key = bearer("k-red")
        assert (await stage.ask(post(headers=key))).status == 200
        answer = await stage.ask(request_of(route, headers=key))
        told = answer.get("retry-after")
        assert told is not None and int(told) > 0
        check_envelope(answer, 429, "tenant_rate_limit_exceeded", retry_after=told)
        assert len(stage.worker.received) == 1

    play_one(scene, keys=KEYS, tenant_rules=rules(requests=1))


# -- the worker's --------------------------------------------------------------------


async def answer_much(connection: Connection, request: Received) -> None:
    await connection.answer(b"x" * (LIMIT + 1))


async def say_nothing(connection: Connection, request: Received) -> None:
    await connection.until_gone()


# The script, and the error; whether its head had told who it was that answered.
WORKERS: list[tuple[Script, int, str, bool]] = [
    (reset, 500, "call_upstream_request_error", False),
    (send_rubbish, 502, "call_upstream_request_error", False),
    (answer_half, 500, "read_response_body_failed", True),
    (answer_much, 502, "upstream_response_too_large", True),
]


@every_route
@pytest.mark.parametrize(("script", "status", "code", "is_routed"), WORKERS)
def test_a_worker_that_breaks_its_answer_is_charged(
    route: str, script: Script, status: int, code: str, is_routed: bool
) -> None:
    async def scene(stage: Stage) -> None:
        record = stage.records[0]
        answer = await stage.ask(request_of(route))
        check_envelope(answer, status, code)
        routed = stage.worker.url if is_routed else None
        assert answer.get("x-smg-routed-worker-id") == routed
        assert (record.backend_errors, record.breaker.failures) == (1, 1)

    play_one(scene, script, dispatch={"max_payload_size": LIMIT})


@every_route
def test_a_worker_that_is_not_there_is_500(route: str) -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        answer = await stage.ask(request_of(route))
        check_envelope(answer, 500, "call_upstream_connection_failed")
        assert stage.records[0].backend_errors == 1

    play_one(scene)


@pytest.mark.parametrize("route", ROUTES[1:5])  # each takes its second
def test_a_worker_that_says_nothing_is_504(route: str) -> None:
    async def scene(stage: Stage) -> None:
        answer = await stage.ask(request_of(route))
        check_envelope(answer, 504, "call_upstream_timeout")
        assert (stage.records[0].timeouts, stage.records[0].load) == (1, 0)

    play_one(
        scene,
        say_nothing,
        upstream={"request_timeout_secs": 1},
        realtime={"realtime_handshake_timeout_secs": 1},
    )
