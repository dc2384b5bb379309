"""A stream whose worker dies has a readable end."""

from __future__ import annotations

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import BROKEN, DONE, EVENTS, SSE_HEAD, ask, stream
from tests.fakes.worker import Connection, Received

# -- the worker dies mid-stream ------------------------------------------------------


def broken(
    tail: bytes, end: str = "close", path: str = "/v1/chat/completions"
) -> bytes:
    """What a client gets of a stream whose worker leaves behind ``tail``."""
    bodies: list[bytes] = []
    seen = False

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        if tail:
            await connection.chunk(tail)
            await eventually(lambda: seen)
        getattr(connection, end)()

    async def scene(stage: Stage) -> None:
        nonlocal seen
        client = await stage.client()
        await client.send(stream(path))
        assert (await client.head()).status == 200
        body = b""
        while piece := await client.chunk():  # raises unless the body ends cleanly
            body += piece
            seen = True
        bodies.append(body)
        await eventually(lambda: stage.responses(path) == {(200, "stream_error"): 1})
        assert stage.records[0].backend_errors == 1
        assert len(stage.worker.received) == 1
        client.close()

    play(scene, script)
    return bodies[0]


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/generate"]
)
def test_a_stream_whose_worker_dies_ends_in_an_error_event_and_done(
    path: str, end: str
) -> None:
    assert broken(EVENTS[0], end, path) == EVENTS[0] + BROKEN


def test_a_stream_that_dies_before_its_first_event_ends_the_same_way() -> None:
    assert broken(b"") == BROKEN


@pytest.mark.parametrize("tail", [b'data: {"a":', b"data: 1\n", b"data: 1\r\n"])
def test_an_error_inside_an_event_is_set_off_by_a_blank_line(tail: bytes) -> None:
    assert broken(tail) == tail + b"\n\n" + BROKEN


@pytest.mark.parametrize("tail", [b"data: 1\n\n", b"data: 1\r\n\r\n", b"data: 1\r\r"])
def test_an_error_between_events_is_not_set_off(tail: bytes) -> None:
    assert broken(tail) == tail + BROKEN


@pytest.mark.parametrize("lead", [b"", b"\n\n"])
def test_a_broken_stream_of_messages_ends_in_anthropics_error(lead: bytes) -> None:
    tail = b"event: x\ndata: {}" + (b"" if lead else b"\n\n")
    assert broken(tail, path="/v1/messages") == (
        tail + lead + b'event: error\ndata: {"type":"error","error":'
        b'{"type":"api_error","message":"Stream error: connection closed"}}\n\n'
    )


def test_a_stream_whose_coding_turns_to_rubbish_ends_readably() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.send(b"zz\r\n")
        await connection.until_gone()

    answer = ask(script)
    assert answer.body.startswith(EVENTS[0] + b'data: {"error":{"message":"Stream err')
    assert answer.body.endswith(b"\n\n" + DONE)
    assert answer.is_whole


def test_the_request_timeout_ends_a_stream_readably() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert answer.is_whole
        assert answer.body == EVENTS[0] + (
            b'data: {"error":{"message":"Stream error: operation timed out",'
            b'"type":"stream_error"}}\n\n' + DONE
        )
        assert stage.records[0].timeouts == 1
        assert stage.responses() == {(200, "stream_error"): 1}
        client.close()

    play(scene, script, upstream={"request_timeout_secs": 1})


@pytest.mark.parametrize("owed", [5, 5000])
def test_a_broken_stream_of_a_set_length_is_cut_and_nothing_put_into_it(
    owed: int,
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        length = len(EVENTS[0]) + owed
        await connection.send(SSE_HEAD + b"content-length: %d\r\n\r\n" % length)
        await connection.send(EVENTS[0])
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(stream())
        await client.head()
        assert EVENTS[0].startswith(await client.until_closed())
        await eventually(lambda: stage.responses() == {(200, "stream_error"): 1})
        client.close()

    play(scene, script)


def test_a_broken_coded_stream_is_cut_and_nothing_put_into_it() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream("content-encoding: gzip\r\n")
        await connection.chunk(b"\x1f\x8b\x08")
        connection.close()

    answer = ask(script)
    assert not answer.is_whole
    assert b"\x1f\x8b\x08".startswith(answer.body)
