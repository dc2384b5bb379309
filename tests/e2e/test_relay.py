"""Event streams: byte for byte, at once, with backpressure, and with a readable end."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Connection, Received

EVENTS = [b'data: {"i":%d}\n\n' % i for i in range(5)] + [b"data: [DONE]\n\n"]
DONE = b"data: [DONE]\n\n"


def stream(path: str = "/v1/chat/completions") -> bytes:
    return post(STREAM, path)


def test_each_write_of_the_worker_is_seen_before_the_next() -> None:
    steps: asyncio.Queue[None] = asyncio.Queue()

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for event in EVENTS:
            await steps.get()
            await connection.chunk(event)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(stream())
        head = await client.head()
        assert head.get("content-type") == "text/event-stream"
        assert head.get("transfer-encoding") == "chunked"
        for event in EVENTS:
            steps.put_nowait(None)
            assert await client.chunk() == event
        assert await client.chunk() == b""
        assert (await client.ask(post())).status == 200
        client.close()

    async def first_streams(connection: Connection, request: Received) -> None:
        if request.body == STREAM:
            await script(connection, request)
        else:
            await connection.answer(b"{}")

    play(scene, first_streams)


@pytest.mark.parametrize("size", [1, 3, 7])
def test_no_byte_is_added_or_lost_however_the_worker_splits_its_writes(
    size: int,
) -> None:
    body = b"".join(EVENTS)
    raw = b"".join(b"%x\r\n%b\r\n" % (len(e), e) for e in EVENTS) + b"0\r\n\r\n"

    async def script(connection: Connection, request: Received) -> None:
        head = (
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        data = head + raw
        for at in range(0, len(data), size):
            await connection.send(data[at : at + size])

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert answer.body == body
        assert answer.is_whole
        client.close()

    play(scene, script)


def test_a_length_given_by_the_worker_is_kept() -> None:
    body = b"".join(EVENTS)

    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert answer.get("content-length") == str(len(body))
        assert answer.body == body
        client.close()

    play(scene, script)


@pytest.mark.parametrize("kind", ["json", "html"])
def test_a_workers_error_on_a_stream_keeps_its_status_and_type(kind: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"<no>", 429, kind=kind)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert (answer.status, answer.body) == (429, b"<no>")
        assert answer.get("content-type") == {"json": "application/json"}.get(
            kind, "text/html"
        )
        client.close()

    play(scene, script)


def broken(connection_end: str, tail: bytes) -> bytes:
    """The body a client gets of a stream that breaks behind ``tail``."""

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(tail)
        connection.close() if connection_end == "close" else connection.reset()

    bodies: list[bytes] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert answer.status == 200
        assert answer.is_whole, "the chunked body must end in good order"
        bodies.append(answer.body)
        await eventually(lambda: stage.responses() == {(200, "stream_error"): 1})
        assert stage.records[0].backend_errors == 1
        client.close()

    play(scene, script)
    return bodies[0]


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_broken_stream_ends_in_an_error_event_and_done(end: str) -> None:
    body = broken(end, EVENTS[0])
    assert body == (
        EVENTS[0] + b'data: {"error":{"message":"Stream error: connection closed",'
        b'"type":"stream_error"}}\n\n' + DONE
    )


def test_an_error_behind_an_unfinished_event_is_set_off_from_it() -> None:
    assert broken("close", b'data: {"a":').startswith(b'data: {"a":\n\ndata: {"error"')


def test_a_broken_anthropic_stream_ends_in_that_dialects_error() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"event: ping\ndata: {}\n\n")
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream("/v1/messages"))
        assert answer.body.endswith(
            b'event: error\ndata: {"type":"error","error":{"type":"api_error",'
            b'"message":"Stream error: connection closed"}}\n\n'
        )
        assert DONE not in answer.body
        client.close()

    play(scene, script)


def test_the_request_timeout_ends_a_stream_with_a_readable_event() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert b"Stream error: operation timed out" in answer.body
        assert answer.body.endswith(DONE)
        assert stage.records[0].timeouts == 1
        client.close()

    play(scene, script, upstream={"request_timeout_secs": 1})


def kept_alive(first: bytes, path: str, wanted: bytes) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(first)
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(stream(path))
        await client.head()
        assert await client.chunk() == first
        assert await client.chunk() == wanted
        client.close()

    play(scene, script, dispatch={"sse_keepalive_secs": 1})


def test_a_silent_stream_is_kept_alive_by_comments() -> None:
    kept_alive(EVENTS[0], "/v1/chat/completions", b": ping\n\n")


def test_a_silent_anthropic_stream_gets_ping_events() -> None:
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    kept_alive(b"event: x\ndata: {}\n\n", "/v1/messages", ping)


def test_nothing_is_put_inside_an_unfinished_event() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b'data: {"a":')
        await asyncio.sleep(1.6)  # the silence itself is what is tested
        await connection.chunk(b"1}\n\n")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert answer.body == b'data: {"a":1}\n\n'
        client.close()

    play(scene, script, dispatch={"sse_keepalive_secs": 1})


def test_a_slow_reader_holds_its_worker_and_loses_nothing() -> None:
    total = 64 * 1024 * 1024
    piece = bytes(range(256)) * 256
    sent = 0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal sent
        await connection.start_stream()
        while sent < total:
            await connection.chunk(piece)
            sent += len(piece)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client(receive_buffer=8192)
        await client.send(stream())
        await client.head()
        seen = -1
        while seen != sent:  # until the worker's sends block
            seen = sent
            await asyncio.sleep(0.2)
        assert sent < total // 2, "the worker was never held"
        got = 0
        while data := await client.chunk():
            at = got % len(piece)
            want = (piece * (len(data) // len(piece) + 2))[at : at + len(data)]
            assert data == want
            got += len(data)
        assert got == total
        client.close()

    play(scene, script)


def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_the_connection() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for event in EVENTS:
            await connection.chunk(event)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream().replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert answer.get("transfer-encoding") is None
        assert answer.body == b"".join(EVENTS)
        client.close()

    play(scene, script)
