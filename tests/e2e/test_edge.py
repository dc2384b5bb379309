"""The hostile edge: what is refused, what times out, what is too much."""

from __future__ import annotations

import asyncio

import pytest
import ujson

from smgproxy.downstream.http1 import LINGER_BYTES
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import CHAT, post
from tests.fakes.worker import Connection, Received


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\n\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505),
        (b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % (b"a" * 20_000), 414),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: %b\r\n\r\n" % (b"a" * 70_000), 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n%b\r\n" % (b"X: y\r\n" * 101), 431),
        (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
    ],
)
def test_what_is_no_request_is_refused_and_the_connection_closed(
    request_bytes: bytes, status: int
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(request_bytes)
        assert (answer.status, answer.body) == (status, b"")
        assert answer.get("connection") == "close"
        assert await client.until_closed() == b""
        assert stage.worker.received == []
        assert stage.gateway.listener.malformed == {status: 1}
        client.close()

    play(scene)


def test_an_incomplete_head_is_closed_without_an_answer_even_if_it_drips() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()

        async def drip() -> None:
            for byte in post():
                await client.send(bytes((byte,)))
                await asyncio.sleep(0.1)

        dripping = asyncio.ensure_future(drip())
        assert await client.until_closed() == b""
        dripping.cancel()
        client.close()

    play(scene, clients={"header_read_timeout_secs": 1})


def test_an_idle_connection_is_closed_silently() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post())).status == 200
        assert await client.until_closed() == b""
        client.close()

    play(scene, clients={"idle_connection_timeout_secs": 1})


def test_an_upload_that_stalls_is_a_408_and_reaches_no_worker() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post()[:-5])
        answer = await client.answer()
        assert (answer.status, answer.get("x-smg-error-code")) == (
            408,
            "request_body_stalled",
        )
        assert answer.get("connection") == "close"
        assert stage.worker.received == []
        client.close()

    play(scene, clients={"stream_body_stall_timeout_secs": 1})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/nope"])
def test_a_body_over_the_limit_is_refused_from_its_head(path: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(
            b"POST %b HTTP/1.1\r\nHost: a\r\nContent-Length: 101\r\n"
            b"Expect: 100-continue\r\n\r\n" % path.encode()
        )
        answer = await client.answer()
        assert (answer.status, answer.get("x-smg-error-code")) == (
            413,
            "request_body_too_large",
        )
        client.close()

    play(scene, dispatch={"max_payload_size": 100})


def test_a_chunked_body_that_grows_over_the_limit_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await client.send(b"65\r\n%b\r\n" % (b"x" * 101))
        assert (await client.answer()).status == 413
        assert stage.worker.received == []
        client.close()

    play(scene, dispatch={"max_payload_size": 100})


def test_a_body_of_exactly_the_limit_passes_chunked_or_sized() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post())).status == 200
        chunked = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"%x\r\n%b\r\n0\r\nTrailer: x\r\n\r\n" % (len(CHAT), CHAT)
        )
        assert (await client.ask(chunked)).status == 200
        assert [one.body for one in stage.worker.received] == [CHAT, CHAT]
        client.close()

    play(scene, dispatch={"max_payload_size": len(CHAT)})


def test_continue_is_sent_when_the_body_is_wanted_and_only_then() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        head, body = post(headers="Expect: 100-continue\r\n").split(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        assert (await client.head()).status == 100
        await client.send(body)
        assert (await client.answer()).status == 200
        await client.send(head.replace(b"/v1/chat", b"/nope") + b"\r\n\r\n")
        assert (await client.answer()).status == 404
        client.close()

    play(scene)


def test_an_offer_of_h2c_is_ignored_with_the_body_intact() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        answer = await client.ask(post(headers=offer + "HTTP2-Settings: AAMAAABk\r\n"))
        assert answer.status == 200
        assert stage.worker.received[0].body == CHAT
        client.close()

    play(scene)


def test_http_1_0_is_answered_in_kind() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        old = b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        answer = await client.ask(old)
        assert (answer.body, answer.get("connection")) == (b"OK", "keep-alive")
        answer = await client.ask(b"GET /health HTTP/1.0\r\n\r\n")
        assert answer.get("connection") == "close"
        assert await client.until_closed() == b""
        client.close()

    play(scene)


def test_head_is_get_without_the_body() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(b"HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = await client.answer(has_body=False)
        assert (answer.status, answer.get("content-length")) == (200, "2")
        assert (await client.ask(post())).status == 200
        client.close()

    play(scene)


def test_connections_beyond_the_limit_are_closed_on_arrival() -> None:
    async def scene(stage: Stage) -> None:
        first = await stage.client()
        assert (await first.ask(post())).status == 200
        second = await stage.client()
        assert await second.until_closed() == b""
        assert stage.gateway.listener.turned_away == 1
        first.close()
        second.close()

    play(scene, clients={"max_connections": 1})


@pytest.mark.parametrize(
    ("data", "status", "code"),
    [
        (post(b"{"), 400, "json_parse_error"),
        (post(b'{"model":NaN}'), 400, "json_parse_error"),
        (post(b'{"model":7}'), 400, "json_parse_error"),
        (post(b"[" * 100_000), 400, "json_parse_error"),
        (post(b'{"a":' * 100_000), 400, "json_parse_error"),
        (post(b""), 400, "json_parse_error"),
        (post().replace(b"application/json", b"text/plain"), 400, "json_parse_error"),
    ],
)
def test_a_bad_body_is_the_clients_error(data: bytes, status: int, code: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(data)
        error = ujson.loads(answer.body)["error"]
        assert (answer.status, error["code"]) == (status, code)
        assert error["type"] == "invalid_request_error"
        assert answer.get("x-smg-error-code") is None
        assert (await client.ask(post())).status == 200, "the connection lives on"
        client.close()

    play(scene)


def test_an_early_answer_can_be_read_whole_before_the_close() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        client.writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n"
            b"Content-Length: 3000000\r\n\r\n" + b"x" * 1_000_000
        )
        answer = await client.answer()
        assert (answer.status, answer.is_whole) == (413, True)
        assert await client.until_closed() == b""
        client.close()

    play(scene, dispatch={"max_payload_size": 100})


def test_requests_behind_an_error_are_still_answered_in_order() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post(b"{") + post() + post(b"[") + post())
        statuses = [(await client.answer()).status for _ in range(4)]
        assert statuses == [400, 200, 400, 200]
        await eventually(lambda: stage.gateway.http.in_flight == 0)
        client.close()

    play(scene, script)


@pytest.mark.parametrize("path", ["/nope", "/health", "/v1/chat/completions"])
def test_an_error_whose_body_was_read_leaves_the_connection_open(path: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(b"no json", path))
        assert answer.status in (400, 404, 405)
        assert answer.get("connection") is None
        assert (await client.ask(post())).status == 200
        client.close()

    play(scene)


def test_what_comes_behind_a_good_request_and_is_none_is_refused_in_its_turn() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post() + post() + b"GET / HTTP/1.1\r\n\r\n" + post())
        assert [(await client.answer()).status for _ in range(3)] == [200, 200, 400]
        assert await client.until_closed() == b""
        assert len(stage.worker.received) == 2
        client.close()

    play(scene)


def test_an_absolute_target_is_read_as_its_path() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        target = b"http://elsewhere:1/v1/chat/completions"
        answer = await client.ask(post().replace(b"/v1/chat/completions", target))
        assert answer.status == 200
        [received] = stage.worker.received
        assert received.path == "/v1/chat/completions"
        assert received.get("host") == f"127.0.0.1:{stage.worker.port}"
        client.close()

    play(scene)


def test_a_body_announced_as_too_large_is_not_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        head = post(headers="Expect: 100-continue\r\n")[: -len(CHAT)]
        await client.send(head)
        answer = await client.answer()
        assert (answer.status, answer.get("connection")) == (413, "close")
        assert await client.until_closed() == b"", "no 100 behind it"
        client.close()

    play(scene, dispatch={"max_payload_size": len(CHAT) - 1})


def test_a_body_that_is_no_json_by_its_type_is_not_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        head = post(headers="Expect: 100-continue\r\n")[: -len(CHAT)]
        await client.send(head.replace(b"application/json", b"text/plain"))
        answer = await client.answer()
        assert (answer.status, error_of(answer)["code"]) == (400, "json_parse_error")
        assert await client.until_closed() == b"", "no 100 behind it"
        client.close()

    play(scene)


def test_an_upload_that_goes_on_and_on_behind_its_answer_is_cut() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(
            b"POST /nope HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n"
        )
        answer = await client.answer()
        assert (answer.status, answer.get("connection")) == (404, "close")
        assert await client.until_closed() == b""
        piece = b"x" * 65536
        with pytest.raises(ConnectionError):
            for _ in range(4 * LINGER_BYTES // len(piece)):
                await client.send(piece)
        client.close()

    play(scene)
