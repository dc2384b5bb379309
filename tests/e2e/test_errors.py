"""Every error the gateway makes: its envelope, its headers, what is counted."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import ujson

from smgproxy.api.replies import reason_phrase
from smgproxy.fleet.worker import WorkerState
from tests.e2e.asking import error_of, get
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import CHAT, STREAM, chat, post
from tests.fakes.worker import Connection, Received

CHAT_PATH = "/v1/chat/completions"
LIMIT = 1_000


async def reset(connection: Connection, request: Received) -> None:
    connection.reset()


async def send_rubbish(connection: Connection, request: Received) -> None:
    await connection.send(b"rubbish\r\n\r\n")


async def answer_half(connection: Connection, request: Received) -> None:
    await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
    connection.close()


async def answer_much(connection: Connection, request: Received) -> None:
    await connection.answer(b"x" * (LIMIT + 1))


class Envelope(NamedTuple):
    """A request to a worker with a script, and the error it ends in.

    ``label``: the path it is counted under. ``routed``: the ``error_type`` of the
    router's counter, empty when the request never got so far.
    """

    name: str
    request: bytes
    status: int
    code: str
    label: str = CHAT_PATH
    routed: str = ""
    script: Any = None
    # No worker accepts, or none is ready.
    is_down: bool = False
    is_ready: bool = True


ENVELOPES = (
    Envelope("unknown_url", get("/nope"), 404, "unknown_url", "other"),
    Envelope("method", get(CHAT_PATH), 405, "method_not_allowed"),
    Envelope("too_large", post(b" " * LIMIT + CHAT), 413, "request_body_too_large"),
    Envelope(
        "no_model",
        post(chat("nobody")),
        404,
        "model_not_found",
        routed="no_workers",
    ),
    Envelope(
        "not_ready",
        post(),
        503,
        "no_available_workers",
        routed="no_workers",
        is_ready=False,
    ),
    Envelope(
        "refused",
        post(),
        500,
        "call_upstream_connection_failed",
        routed="backend_error",
        is_down=True,
    ),
    Envelope(
        "reset",
        post(),
        500,
        "call_upstream_request_error",
        routed="backend_error",
        script=reset,
    ),
    Envelope(
        "rubbish",
        post(),
        502,
        "call_upstream_request_error",
        routed="backend_error",
        script=send_rubbish,
    ),
    Envelope(
        "half",
        post(),
        500,
        "read_response_body_failed",
        routed="backend_error",
        script=answer_half,
    ),
    Envelope(
        "much",
        post(),
        502,
        "upstream_response_too_large",
        routed="backend_error",
        script=answer_much,
    ),
    Envelope(
        "stream_refused",
        post(STREAM),
        500,
        "call_upstream_connection_failed",
        routed="backend_error",
        is_down=True,
    ),
)


@pytest.mark.parametrize("case", ENVELOPES, ids=lambda case: case.name)
def test_an_envelope_agrees_with_its_headers_and_is_counted_once(
    case: Envelope,
) -> None:
    async def scene(stage: Stage) -> None:
        if case.is_down:
            await stage.worker.stop()
        if not case.is_ready:
            stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        client = await stage.client()
        answer = await client.ask(case.request)

        assert answer.status == case.status
        assert answer.get("content-type") == "application/json"
        assert answer.all("x-smg-error-code") == [case.code]
        assert len(answer.all("x-request-id")) == 1
        error = error_of(answer)
        assert error.pop("message")
        reason = reason_phrase(case.status)
        assert error == {"type": reason, "code": case.code, "param": None}

        await eventually(lambda: stage.gateway.http.in_flight == 0)
        assert stage.responses(case.label) == {(case.status, case.code): 1}
        stats = stage.gateway.router_stats
        routed = {error_type: n for (_, _, error_type), n in stats.errors.items()}
        assert routed == ({case.routed: 1} if case.routed else {})
        assert sum(stats.requests.values()) == len(routed)
        assert not stats.durations, "failures are not timed"
        client.close()

    scripts = [case.script] if case.script is not None else []
    play(scene, *scripts, dispatch={"max_payload_size": LIMIT})


def test_an_unknown_path_is_named_with_its_method_and_without_its_query() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for method, path in (("GET", "/"), ("POST", "/workers/"), ("PUT", "/V1/chat")):
            answer = await client.ask(get(f"{path}?key=secret", method))
            assert answer.status == 404
            assert error_of(answer)["message"] == f"Invalid URL ({method} {path})"
        client.close()

    play(scene)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT_PATH, "POST"),
        ("HEAD", CHAT_PATH, "POST"),
        ("GET", "/v1/embeddings", "POST"),
        ("DELETE", "/v1/embeddings", "POST"),
        ("POST", "/v1/models", "GET,HEAD"),
        ("BREW", "/health", "GET,HEAD"),
        ("get", "/health", "GET,HEAD"),
        ("PUT", "/workers", "GET,POST,HEAD"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    method: str, path: str, allow: str
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(get(path, method))
        answer = await client.answer(has_body=method != "HEAD")
        assert answer.status == 405
        assert set((answer.get("allow") or "").split(",")) == set(allow.split(","))
        assert answer.get("x-smg-error-code") == "method_not_allowed"
        if method != "HEAD":
            error = error_of(answer)
            assert error["message"] == f"Invalid URL ({method} {path})"
        client.close()

    play(scene)


# -- nobody to serve it -------------------------------------------------------------


def test_no_ready_worker_asks_the_client_to_come_back() -> None:
    async def scene(stage: Stage) -> None:
        [record] = stage.records
        stage.gateway.registry.set_state(record, WorkerState.NOT_READY)
        client = await stage.client()
        for request in (post(), post(b"{}", "/generate")):
            answer = await client.ask(request)
            assert (answer.status, answer.get("retry-after")) == (503, "1")
        assert stage.worker.received == []
        stage.gateway.registry.set_state(record, WorkerState.READY)
        assert (await client.ask(post())).status == 200
        client.close()

    play(scene)


def test_a_model_nobody_serves_is_named_but_is_no_label() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        name = 'a "quoted"\nname'
        answer = await client.ask(post(chat(name)))
        assert answer.status == 404
        assert answer.get("retry-after") is None
        assert error_of(answer)["message"] == f"No worker available for model '{name}'"
        assert list(stage.gateway.router_stats.requests) == [("other", "chat", False)]
        client.close()

    play(scene)


def test_a_model_whose_workers_are_not_ready_is_counted_by_its_name() -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        client = await stage.client()
        assert (await client.ask(post())).status == 503
        assert list(stage.gateway.router_stats.requests) == [("m", "chat", False)]
        client.close()

    play(scene)


# -- Anthropic's dialect ------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_bytes", "status", "kind", "code"),
    [
        (post(b"{", "/v1/messages"), 400, "invalid_request_error", None),
        (
            post(chat("nobody", max_tokens=1), "/v1/messages"),
            404,
            "not_found_error",
            "model_not_found",
        ),
        (
            get("/v1/messages"),
            405,
            "invalid_request_error",
            "method_not_allowed",
        ),
        (
            post(b" " * LIMIT + CHAT, "/v1/messages"),
            413,
            "request_too_large",
            "request_body_too_large",
        ),
        (
            post(path="/v1/messages"),
            503,
            "overloaded_error",
            "no_available_workers",
        ),
    ],
)
def test_errors_on_messages_have_anthropics_shape(
    request_bytes: bytes, status: int, kind: str, code: str | None
) -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        client = await stage.client()
        answer = await client.ask(request_bytes)
        assert answer.status == status
        body = ujson.loads(answer.body)
        assert body["error"].pop("message")
        request_id = answer.get("x-request-id")
        assert body == {
            "type": "error",
            "error": {"type": kind},
            "request_id": request_id,
        }
        assert answer.get("x-smg-error-code") == code
        assert answer.get("retry-after") == ("1" if status == 503 else None)
        assert (request_id or "").startswith("msg_")
        client.close()

    play(scene, dispatch={"max_payload_size": LIMIT})


@pytest.mark.parametrize(
    ("script", "status"), [(reset, 500), (send_rubbish, 502), (answer_half, 500)]
)
def test_a_broken_worker_on_messages_is_an_api_error(script: Any, status: int) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(path="/v1/messages"))
        assert (answer.status, error_of(answer)["type"]) == (status, "api_error")
        client.close()

    play(scene, script)
