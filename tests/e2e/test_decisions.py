"""/v1/decisions from end to end: who is asked what, and every error of the route."""

from __future__ import annotations

from typing import Any

import pytest
import ujson

from smgproxy.fleet.worker import WorkerState
from smgproxy.simulated.systemone import systemone
from tests.e2e.asking import check_bad_body, check_envelope, error_of
from tests.e2e.stage import Stage, play
from tests.fakes.client import post
from tests.fakes.worker import Connection, Received

PATH = "/v1/decisions"
QUESTIONS = [
    {"type": "predicate", "instructions": "Is it?"},
    {
        "type": "choice",
        "instructions": "?",
        "choices": [{"value": "a"}, {"value": 1 < 2}],
    },
    {"type": "score", "name": "s", "instructions": "?", "levels": [{"label": "x"}] * 3},
]


def ask(**fields: Any) -> bytes:
    body = {"model": "m", "input": "text", "questions": QUESTIONS, **fields}
    return post(ujson.dumps(body).encode(), PATH)


async def sglang(connection: Connection, request: Received) -> None:
    assert request.path == "/v1/systemone"
    body = systemone(request.body, "served", "id").body
    await connection.answer(body, 201, "x-own: 1\r\nx-smg-error-code: no\r\n", "text")


def saying(
    body: bytes, status: int = 200, headers: str = "", kind: str = "json"
) -> Any:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(body, status, headers, kind)

    return script


def speaks(stage: Stage, *runtimes: str) -> None:
    for record, runtime in zip(stage.records, runtimes, strict=True):
        record.runtime_type = runtime


def test_another_runtime_gets_and_gives_the_bytes_as_they_are() -> None:
    refused = saying(b"no", 422, "x-own: 1\r\nx-smg-error-code: no\r\n", "text")

    async def scene(stage: Stage) -> None:
        speaks(stage, "vllm")
        client = await stage.client()
        request = ask(stream=True, zz=1e2, safety_identifier="me")
        answer = await client.ask(request)
        [received] = stage.worker.received
        assert received.path == PATH
        assert received.body == request.partition(b"\r\n\r\n")[2]
        assert (answer.status, answer.body) == (422, b"no")
        assert answer.get("content-type") == "text/plain"
        assert answer.get("x-own") == "1"
        assert answer.get("x-smg-error-code") is None
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        client.close()

    play(scene, refused)


def test_sglang_is_asked_in_its_own_words_and_its_answer_translated() -> None:
    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        answer = await client.ask(ask(safety_identifier="me"))
        assert answer.status == 201, answer.body
        assert answer.get("content-type") == "application/json"
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        assert len(answer.all("x-request-id")) == 1
        assert answer.get("x-own") is answer.get("x-smg-error-code") is None
        told = ujson.loads(answer.body)
        assert told["model"] == "m"
        kinds = [(one["type"], one["name"]) for one in told["answers"]]
        assert kinds == [("predicate", None), ("choice", None), ("score", "s")]
        assert stage.responses(PATH) == {(201, ""): 1}
        stats = stage.gateway.router_stats
        assert list(stats.requests) == [("m", "decisions", False)]
        client.close()

    play(scene, sglang)


def test_limits_of_sglang_hold_only_where_it_was_chosen() -> None:
    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang", "vllm")
        client = await stage.client()
        seen = [(await client.ask(ask(questions=[]))).status for _ in range(4)]
        assert sorted(seen) == [200, 200, 400, 400]
        assert stage.workers[0].received == []
        assert [one.path for one in stage.workers[1].received] == [PATH] * 2
        client.close()

    play(scene, sglang, saying(b"{}"))


# -- errors -------------------------------------------------------------------------

ENVELOPES = [
    (ask(model="nobody"), 404, "model_not_found", True),
    (ask(model=""), 404, "model_not_found", True),
    (ask(), 503, "no_available_workers", False),
    (ask(zz=1), 400, "unsupported_decisions_request", True),
    (ask(input=" "), 400, "unsupported_decisions_request", True),
    (ask(), 502, "invalid_decisions_response", True),
]


@pytest.mark.parametrize(("request_bytes", "status", "code", "is_ready"), ENVELOPES)
def test_an_error_of_the_gateways_own(
    request_bytes: bytes, status: int, code: str, is_ready: bool
) -> None:
    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        if not is_ready:
            stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        client = await stage.client()
        answer = await client.ask(request_bytes)
        retry_after = "1" if status == 503 else None
        check_envelope(answer, status, code, retry_after=retry_after)
        worker = stage.worker.url if status == 502 else None
        assert answer.get("x-smg-routed-worker-id") == worker
        assert len(stage.worker.received) == (status == 502)
        client.close()

    play(scene, saying(b"{}"))


@pytest.mark.parametrize(
    ("request_bytes", "code"),
    [
        (post(b"{", PATH), "json_parse_error"),
        (ask(input=7, model="nobody"), "json_parse_error"),
        (ask(safety_identifier="x" * 129, model="nobody"), 400),
        (ask().replace(b"Content-Type", b"X-Type"), "json_parse_error"),
    ],
)
def test_a_bad_body_is_refused_before_anyone_is_chosen(
    request_bytes: bytes, code: str | int
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(request_bytes)
        check_bad_body(answer, code)
        assert not stage.gateway.router_stats.requests
        client.close()

    play(scene)


@pytest.mark.parametrize("status", [200, 204])
def test_success_without_a_body_is_no_answer(status: int) -> None:
    async def nothing(connection: Connection, request: Received) -> None:
        head = f"HTTP/1.1 {status} Whatever\r\n"
        length = "" if status == 204 else "content-length: 0\r\n"
        await connection.send(f"{head}{length}\r\n".encode())

    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        answer = await client.ask(ask())
        check_envelope(answer, 502, "invalid_decisions_response")
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        client.close()

    play(scene, nothing)


def test_success_that_is_no_answer_is_tried_again_and_opens_the_circuit() -> None:
    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        threshold = stage.records[0].breaker.settings.failure_threshold
        for _ in range(threshold - 1):
            assert (await client.ask(ask())).status == 502
        assert len(stage.worker.received) == 2 * (threshold - 1)
        # One failure for each request: this one's leaves nobody to try again.
        answer = await client.ask(ask())
        assert answer.status == 503
        assert answer.get("x-smg-error-code") == "no_available_workers"
        client.close()

    retries = {"retry_max_retries": 2, "retry_initial_backoff_ms": 0}
    play(scene, saying(b"{}"), retries=retries)


def test_a_request_that_sglang_cannot_serve_says_nothing_about_it() -> None:
    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        for _ in range(2 * stage.records[0].breaker.settings.failure_threshold):
            assert (await client.ask(ask(zz=1))).status == 400
        assert (await client.ask(ask())).status == 201
        client.close()

    play(scene, sglang)


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        *((400, "json", "Bad Request"), (401, "json", "Unauthorized")),
        *((404, "html", "Not Found"), (413, "text", "Payload Too Large")),
        *((500, "json", "Internal Server Error"), (307, "text", "Temporary Redirect")),
    ],
)
def test_a_workers_error_keeps_its_status_and_loses_its_headers(
    status: int, kind: str, reason: str
) -> None:
    extra = "x-smg-error-code: no\r\nretry-after: 9\r\nlocation: /other\r\n"

    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        answer = await client.ask(ask())
        assert answer.status == status
        assert answer.get("content-type") == "application/json"
        for name in ("x-smg-error-code", "retry-after", "location"):
            assert answer.get(name) is None
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        assert error_of(answer) == {
            "type": reason,
            "code": "upstream_decisions_error",
            "message": "why",
            "param": None,
        }
        assert len(stage.worker.received) == 1
        client.close()

    play(scene, saying(b'{"detail":"why"}', status, extra, kind), retries={})


def test_a_workers_error_in_openais_shape_is_relayed_byte_for_byte() -> None:
    body = b'{ "error": {"message": "x", "code": "own"}, "more": 1 }'

    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        answer = await client.ask(ask())
        assert (answer.status, answer.body) == (422, body)
        assert answer.get("x-smg-error-code") is None
        client.close()

    play(scene, saying(body, 422, kind="text"))


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_worker_that_is_busy_is_asked_again(status: int) -> None:
    async def scene(stage: Stage) -> None:
        speaks(stage, "sglang")
        client = await stage.client()
        answer = await client.ask(ask())
        assert answer.status == status
        assert len(stage.worker.received) == 2
        client.close()

    retries = {"retry_max_retries": 2, "retry_initial_backoff_ms": 0}
    play(scene, saying(b"{}", status), retries=retries)
