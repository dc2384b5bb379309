"""Answers of workers that are unusual and right, and how they are relayed."""

from __future__ import annotations

import gzip

import pytest

from tests.e2e.scripts import CHUNKED, LENGTH_2, ROUTED, ask_once, raw
from tests.e2e.stage import Stage, play
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Connection, Received

OK = b'{"ok":true}'


def test_interim_responses_are_skipped() -> None:
    answer = ask_once(
        raw(
            b"HTTP/1.1 100 Continue\r\n\r\n"
            b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + LENGTH_2 + b"ok"
        )
    )
    assert (answer.status, answer.body, answer.get("link")) == (200, b"ok", None)


def test_a_status_without_a_standard_phrase_passes() -> None:
    answer = ask_once(raw(b"HTTP/1.1 599 Odd\r\ncontent-length: 2\r\n\r\nok"))
    assert (answer.status, answer.body) == (599, b"ok")


def test_fields_that_connection_names_go_no_further() -> None:
    answer = ask_once(
        raw(
            b"HTTP/1.1 200 OK\r\nconnection: x-own, keep-alive\r\nx-own: 1\r\n"
            b"keep-alive: timeout=5\r\nproxy-authenticate: Basic\r\nupgrade: h2c\r\n"
            b"te: trailers\r\nx-else: 2\r\ncontent-length: 2\r\n\r\nok"
        )
    )
    for name in ("x-own", "keep-alive", "proxy-authenticate", "upgrade", "te"):
        assert answer.get(name) is None
    assert answer.get("x-else") == "2"


@pytest.mark.parametrize("first", ["content-length", "transfer-encoding"])
def test_chunked_beside_a_length_counts_and_the_length_is_not_relayed(
    first: str,
) -> None:
    fields = [b"content-length: 999\r\n", b"transfer-encoding: chunked\r\n"]
    if first != "content-length":
        fields.reverse()
    reply = b"HTTP/1.1 200 OK\r\n" + b"".join(fields) + b"\r\n2\r\n{}\r\n0\r\n\r\n"
    whole = ask_once(raw(reply))
    assert (whole.body, whole.get("content-length")) == (b"{}", "2")
    streamed = ask_once(raw(reply), post(STREAM))
    assert (streamed.body, streamed.get("content-length")) == (b"{}", None)
    assert streamed.get("transfer-encoding") == "chunked"


def test_a_chunked_answer_is_relayed_with_its_length_and_without_trailers() -> None:
    answer = ask_once(
        raw(
            CHUNKED + b"trailer: x-smg-error-code\r\n\r\n"
            b"2;ext=1\r\nok\r\n0\r\nx-smg-error-code: forged\r\n\r\n"
        )
    )
    assert (answer.body, answer.get("content-length")) == (b"ok", "2")
    assert answer.get("x-smg-error-code") is None
    assert answer.get("trailer") is None


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_an_answer_that_ends_with_its_connection_is_relayed_with_its_length(
    version: bytes,
) -> None:
    answer = ask_once(raw(b"HTTP/%b 200 OK\r\n\r\nhello" % version, "close"))
    assert (answer.body, answer.get("content-length")) == (b"hello", "5")


@pytest.mark.parametrize("request_bytes", [post(), post(STREAM)], ids=["chat", "sse"])
def test_a_coded_body_passes_untouched(request_bytes: bytes) -> None:
    coded = gzip.compress(OK * 100)
    reply = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b"
    answer = ask_once(raw(reply % (len(coded), coded)), request_bytes)
    assert (answer.body, answer.get("content-encoding")) == (coded, "gzip")
    assert answer.get("content-length") == str(len(coded))


@pytest.mark.parametrize("body", [b"not json {", b"\x00\xff", b""])
def test_a_body_is_not_looked_into(body: bytes) -> None:
    reply = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    answer = ask_once(raw(reply + b"content-length: %d\r\n\r\n%b" % (len(body), body)))
    assert (answer.status, answer.body) == (200, body)


@pytest.mark.parametrize("request_bytes", [post(), post(STREAM)], ids=["chat", "sse"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_relayed_and_not_followed(
    status: int, request_bytes: bytes
) -> None:
    reply = (
        b"HTTP/1.1 %d X\r\nlocation: http://else.where/\r\ncontent-length: 0\r\n\r\n"
    )
    answer = ask_once(raw(reply % status), request_bytes)
    assert (answer.status, answer.get("location")) == (status, "http://else.where/")


@pytest.mark.parametrize("request_bytes", [post(), post(STREAM)], ids=["chat", "sse"])
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\netag: x\r\n\r\n",
    ],
)
def test_an_answer_without_a_body_has_none_and_its_connections_go_on(
    reply: bytes, request_bytes: bytes
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(3):
            answer = await client.ask(request_bytes)
            assert answer.status == int(reply[9:12])
            assert answer.get("transfer-encoding") is None
            assert (answer.get("content-length") or "0") in ("0", "99")
        assert stage.worker.accepted == 1
        client.close()

    play(scene, raw(reply))


@pytest.mark.parametrize("status", [400, 404, 422, 429, 500, 503, 504])
def test_a_workers_own_error_is_relayed_as_it_is(status: int) -> None:
    async def script(connection: Connection, request: Received) -> None:
        fields = "x-smg-error-code: forged\r\nretry-after: 7\r\n"
        await connection.answer(b'{"detail":"no"}', status, fields)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post())
        assert (answer.status, answer.body) == (status, b'{"detail":"no"}')
        assert answer.get("x-smg-error-code") is None
        assert answer.get("retry-after") == "7"
        assert answer.get(ROUTED) == stage.worker.url
        assert len(stage.worker.received) == 1
        record = stage.records[0]
        assert record.backend_errors == (status in (500, 503))
        assert record.timeouts == (status == 504)
        client.close()

    play(scene, script)
