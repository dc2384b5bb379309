"""Bodies that are JSON, and the many that are not."""

from __future__ import annotations

import pytest

from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import CHAT, post


@pytest.mark.parametrize(
    "value",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/json;",
        "application/problem+json",
        "application/vnd.api+json; version=1",
    ],
)
def test_a_type_that_names_json_is_taken(value: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        request = post().replace(b"application/json", value.encode())
        assert (await client.ask(request)).status == 200
        # The worker is told the same whatever the client called it.
        assert stage.worker.received[0].get("content-type") == "application/json"
        client.close()

    play(scene)


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"text/plain", b"text/json", b"json", b"+json", b"text/x+json"),
        *(b"application/jsonp", b"application/x-www-form-urlencoded"),
        b"multipart/form-data; boundary=application/json",
    ],
)
def test_any_other_type_is_no_json(value: bytes) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post().replace(b"application/json", value))
        assert (answer.status, error_of(answer)["code"]) == (400, "json_parse_error")
        assert stage.worker.received == []
        client.close()

    play(scene)


def test_a_missing_type_is_no_json() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        line = b"Content-Type: application/json\r\n"
        answer = await client.ask(post().replace(line, b""))
        assert (answer.status, error_of(answer)["code"]) == (400, "json_parse_error")
        client.close()

    play(scene)


BAD_BODIES = {
    "empty": b"",
    "blank": b"  \r\n",
    "cut_short": CHAT[:-1],
    "two_values": CHAT + CHAT,
    "trailing_comma": b'{"model":"m",}',
    "single_quotes": b"{'model':'m'}",
    "comment": b'{"model":"m"/**/}',
    "byte_order_mark": b"\xef\xbb\xbf" + CHAT,
    "utf_16": CHAT.decode().encode("utf-16"),
    "not_utf_8": b'{"model":"\xff"}',
    "raw_control_character": b'{"model":"m\n"}',
    "leading_zero": b'{"model":"m","n":01}',
    "nan": b'{"model":"m","temperature":NaN}',
    "infinity": b'{"model":"m","temperature":-Infinity}',
    "hexadecimal": b'{"model":"m","n":0x1}',
    "deep_list": b'{"model":"m","x":' + b"[" * 200_000,
    "deep_list_closed": b'{"model":"m","x":%b%b}' % (b"[" * 90_000, b"]" * 90_000),
    "deep_object": b'{"a":' * 100_000,
    "list": b"[]",
    "string": b'"model"',
    "number": b"7",
    "null": b"null",
    "model_is_a_number": b'{"model":7}',
    "model_is_a_list": b'{"model":["m"]}',
    "stream_is_a_string": b'{"model":"m","stream":"true"}',
    "stream_is_a_number": b'{"model":"m","stream":1}',
}


@pytest.mark.parametrize("name", BAD_BODIES)
def test_a_bad_body_is_a_parse_error_and_the_connection_lives_on(name: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(BAD_BODIES[name]))
        assert answer.status == 400
        assert answer.get("x-smg-error-code") is None
        error = error_of(answer)
        assert error.pop("message")
        assert error == {"type": "invalid_request_error", "code": "json_parse_error"}
        assert stage.worker.received == []
        assert not stage.gateway.router_stats.requests, "it was never routed"
        assert (await client.ask(post())).status == 200
        await eventually(lambda: stage.gateway.http.in_flight == 0)
        assert stage.responses() == {(400, "json_parse_error"): 1, (200, ""): 1}
        client.close()

    play(scene)


JSON_PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/generate", "/v1/embeddings"),
    *("/v1/rerank", "/rerank", "/v1/classify", "/v1/responses"),
    "/v1/decisions",
)


@pytest.mark.parametrize("path", JSON_PATHS)
def test_every_json_route_has_the_same_parse_error(path: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(b"{", path))
        assert (answer.status, error_of(answer)["code"]) == (400, "json_parse_error")
        client.close()

    play(scene)


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
def test_a_rerank_is_asked_where_every_engine_serves_it(path: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post(path=path))).status == 200
        assert stage.worker.received[0].path == "/v1/rerank"
        client.close()

    play(scene)


def test_a_message_about_a_body_holds_no_line_break_and_is_short() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(b'{"model":["' + b"x\\n" * 10_000 + b'"]}'))
        assert answer.status == 400
        assert len(answer.body) < 500
        assert "\n" not in error_of(answer)["message"]
        client.close()

    play(scene)


def test_tokens_are_counted_by_a_worker_under_the_same_path() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        path = "/v1/messages/count_tokens"
        body = b'{"model":"m","messages":[{"role":"user","content":"x"}],"zz":1.50}'
        assert (await client.ask(post(body, path))).status == 200
        received = stage.worker.received[0]
        assert (received.path, received.body) == (path, body)
        answer = await client.ask(post(body.replace(b'"m"', b'"nobody"'), path))
        assert (answer.status, error_of(answer)["type"]) == (404, "not_found_error")
        client.close()

    play(scene)
