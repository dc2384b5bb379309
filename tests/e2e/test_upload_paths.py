"""Which bodies stream: each row by the metric it raises and by what the worker got."""

from __future__ import annotations

from typing import Any

import pytest

from smgproxy.api.endpoints import INFERENCE
from smgproxy.dispatch.bodymode import BodyRules
from smgproxy.routing.router import Router
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, play
from tests.e2e.uploads import PATH, STREAMED, body_paths
from tests.fakes.client import CHAT, Answer, chat, post
from tests.fakes.http2_frames import Http2Client
from tests.fakes.worker import Connection, Received

KEEP_10 = {"dispatch": {"max_buffered_request_bytes": 10}}
CHUNKED = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n"
    b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n\r\n" % (len(CHAT), CHAT)
)
TOKENS = "X-SMG-Routing-Tokens: 1,2,3\r\n"


class Seen:
    """What one request led to."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.received: list[Received] = []
        self.paths: dict[tuple[str, str], int] = {}
        self.requests: dict[tuple[str, str, bool], int] = {}


def ask(request: bytes, *, before: Any = None, **rooms: Any) -> Seen:
    """One request; ``before`` may change the gateway first."""
    seen = Seen()

    async def scene(stage: Stage) -> None:
        if before is not None:
            before(stage)
        client = await stage.client()
        seen.answer = await client.ask(request)
        seen.received = stage.worker.received
        seen.paths = body_paths(stage)
        seen.requests = dict(stage.gateway.router_stats.requests)
        client.close()

    play(scene, **rooms)
    return seen


def was_streamed(request: Received) -> bool:
    return request.get("transfer-encoding") == "chunked"


def two_models(stage: Stage) -> None:
    stage.records[0].models.append({"id": "another"})
    stage.gateway.registry.changed()


def rules(stage: Stage, **changes: Any) -> None:
    uploads = stage.gateway._forwarder._uploads  # no flag: there are no such modules
    uploads._rules = BodyRules(retries_enabled=False, **changes)


KEY_OVERRIDE = {**STREAMED, "policies": {"routing_key_override": True}}
CACHE_AWARE = {**STREAMED, "routing": {"policy": "cache_aware"}}
ROWS: list[tuple[str, str, bytes, dict[str, Any], Any]] = [
    ("buffered", "model_ambiguous", post(), STREAMED, two_models),
    ("buffered", "routing_key_override", post(), KEY_OVERRIDE, None),
    ("buffered", "policy_needs_text", post(), CACHE_AWARE, None),
    (
        *("buffered", "wasm_request_hook", post(), STREAMED),
        lambda stage: rules(stage, has_request_hook=True),
    ),
    ("buffered", "no_content_length", CHUNKED, STREAMED, None),
    ("buffered", "retryable", post(), {}, None),
    ("streamed", "retry_forfeited", post(), KEEP_10, None),
    ("streamed", "pure_forward", post(), STREAMED, None),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_each_row_counts_its_reason_and_travels_its_way(
    row: tuple[str, str, bytes, dict[str, Any], Any],
) -> None:
    path, reason, request, rooms, before = row
    seen = ask(request, before=before, **rooms)
    assert seen.answer is not None and seen.answer.status == 200
    assert seen.paths == {(path, reason): 1}
    (received,) = seen.received
    assert received.body == CHAT
    assert was_streamed(received) == (path == "streamed")
    assert (received.get("content-length") is None) == (path == "streamed")


@pytest.mark.parametrize("row", ROWS, ids=[row[1] for row in ROWS])
def test_it_does_for_clients_of_http_2_too(
    row: tuple[str, str, bytes, dict[str, Any], Any],
) -> None:
    path, reason, request, rooms, before = row

    async def scene(stage: Stage) -> None:
        if before is not None:
            before(stage)
        client = await Http2Client.connect(stage.port)
        sized = [] if request is CHUNKED else [("content-length", str(len(CHAT)))]
        stream_id = await client.open(*sized)
        await client.body(stream_id, CHAT)
        answer = client.answers[stream_id]
        await client.until(lambda: answer.is_over)
        assert answer.status == 200
        assert body_paths(stage) == {(path, reason): 1}
        (received,) = stage.worker.received
        assert received.body == CHAT
        assert was_streamed(received) == (path == "streamed")
        client.close()

    play(scene, **rooms)


@pytest.mark.parametrize("hint", ["", TOKENS, TOKENS.replace("1,2", "1, 2")])
def test_a_policy_that_reads_text_buffers_without_a_valid_hint(hint: str) -> None:
    seen = ask(post(headers=hint), **CACHE_AWARE)
    streams = hint == TOKENS
    expected = ("streamed", "pure_forward")
    assert seen.paths == {expected if streams else ("buffered", "policy_needs_text"): 1}
    assert was_streamed(seen.received[0]) == streams


def test_a_worker_that_needs_a_field_in_the_body_buffers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Router, "edits_bodies", True)
    seen = ask(post(), **STREAMED)
    assert seen.paths == {("buffered", "worker_mutates_body"): 1}
    assert not was_streamed(seen.received[0])


def test_without_a_worker_the_body_is_read_and_named_in_the_error() -> None:
    def nobody(stage: Stage) -> None:
        stage.gateway.registry.remove(stage.records[0])

    seen = ask(post(), before=nobody, **STREAMED)
    assert seen.paths == {("buffered", "no_available_worker"): 1}
    assert seen.answer is not None and seen.answer.status == 404
    assert error_of(seen.answer)["message"] == "No worker available for model 'm'"


def test_a_body_over_the_limit_is_refused_uncounted() -> None:
    rooms = {
        "retries": {"disable_retries": True},
        "dispatch": {"max_payload_size": len(CHAT) - 1},
    }
    seen = ask(post(), **rooms)
    assert seen.answer is not None and seen.answer.status == 413
    assert error_of(seen.answer)["code"] == "request_body_too_large"
    assert seen.answer.get("x-smg-error-code") == "request_body_too_large"
    assert not seen.paths and not seen.received


@pytest.mark.parametrize("endpoint", INFERENCE, ids=lambda one: one.path)
def test_the_routes_that_can_stream(endpoint: Any) -> None:
    streamable = {
        *("/generate", "/v1/chat/completions", "/v1/completions", "/v1/messages"),
        *("/v1/embeddings", "/v1/classify"),
    }
    seen = ask(post(path=endpoint.path), **STREAMED)
    can = endpoint.path in streamable
    assert seen.paths == ({("streamed", "pure_forward"): 1} if can else {})
    assert was_streamed(seen.received[0]) == can


# -- what the worker gets ------------------------------------------------------------


def test_the_head_is_the_contracts_and_hints_for_the_gateway_stay_here() -> None:
    headers = (
        "Authorization: Bearer k\r\nCookie: c\r\nAccept: text/html\r\n"
        f"{TOKENS}X-SMG-Routing-Key: user-7\r\nExpect: 200-maybe\r\n"
    )
    received = ask(post(headers=headers), **STREAMED).received[0]
    host = received.get("host")
    assert (
        received.raw_head
        == (
            f"POST {PATH} HTTP/1.1\r\ncontent-type: application/json\r\n"
            "authorization: Bearer k\r\nx-smg-routing-key: user-7\r\n"
            f"accept: */*\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n"
        ).encode()
    )


@pytest.mark.parametrize("body", [b"[[[", b"", b'{"model":"nope"}', b"\x00\xff"])
@pytest.mark.parametrize("kind", ["", "Content-Type: text/plain\r\n"])
def test_nobody_reads_the_body(body: bytes, kind: str) -> None:
    request = post(body).replace(b"Content-Type: application/json\r\n", kind.encode())
    seen = ask(request, **STREAMED)
    assert seen.answer is not None and seen.answer.status == 200
    assert seen.received[0].body == body
    assert seen.received[0].get("content-type") == "application/json"
    assert seen.requests == {("unknown", "chat", False): 1}


# -- answers -------------------------------------------------------------------------


def test_an_event_stream_is_relayed_as_it_comes() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post())
        assert answer.body == b"data: 1\n\n" and answer.is_whole
        assert answer.get("transfer-encoding") == "chunked"
        assert stage.gateway.router_stats.requests == {("unknown", "chat", False): 1}
        # The worker's connection went back: one is enough for small bodies.
        assert (await client.ask(post())).is_whole
        assert stage.worker.accepted == 1
        client.close()

    play(scene, script, **STREAMED)


def test_any_other_answer_is_read_whole() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        await connection.chunk(b'{"a":')
        await connection.chunk(b"1}")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post())
        assert (answer.get("content-length"), answer.body) == ("7", b'{"a":1}')
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        client.close()

    play(scene, script, **STREAMED)


def test_an_answer_over_the_limit_is_502() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"x" * 201)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post())
        error = error_of(answer)
        assert answer.status == 502
        assert error["code"] == "upstream_response_too_large"
        assert error["message"] == "Response from worker exceeded 200 bytes"
        assert stage.records[0].backend_errors == 1
        client.close()

    rooms = {
        "retries": {"disable_retries": True},
        "dispatch": {"max_payload_size": 200},
    }
    play(scene, script, **rooms)


# -- one attempt, early release ------------------------------------------------------


@pytest.mark.parametrize("is_pooled", [False, True])
def test_there_is_one_attempt(is_pooled: bool) -> None:
    async def script(connection: Connection, request: Received) -> None:
        if len(request.body) == len(CHAT):
            connection.close()
        else:
            await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        if is_pooled:
            assert (await client.ask(post(b"{}"))).status == 200
        answer = await client.ask(post())
        code = answer.get("x-smg-error-code") or ""
        assert (answer.status, code) == (500, "call_upstream_request_error")
        assert len(stage.worker.received) == 1 + is_pooled
        assert stage.gateway.upstream.resends == 0
        assert stage.gateway.router_stats.upstream[(500, code)] == 1
        assert stage.records[0].backend_errors == 1
        client.close()

    play(scene, script, **STREAMED)


def big_chunked(size: int) -> bytes:
    body = chat(pad="x" * (size - len(chat(pad=""))))
    assert len(body) == size
    head = CHUNKED.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body)


@pytest.mark.parametrize(
    ("size", "rooms", "released"),
    [
        (1048576, STREAMED, 1048576),
        (1048575, STREAMED, 0),
        (1048576, {}, 0),
    ],
)
def test_large_buffered_bodies_are_let_go_once_sent_if_there_are_no_retries(
    size: int, rooms: dict[str, Any], released: int
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(big_chunked(size))
        assert answer.get("x-smg-error-code") == "call_upstream_request_error"
        assert stage.gateway.router_stats.released_early_bytes == released
        assert stage.gateway.upstream.resends == (0 if released else 1)
        for received in stage.worker.received:
            assert received.get("content-length") == str(size)
            assert len(received.body) == size
        client.close()

    play(scene, script, **rooms)
