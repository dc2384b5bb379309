"""Event streams: byte for byte, at once, held by slow clients, with a readable end."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, Answer, post
from tests.fakes.worker import Connection, Received, Script

EVENTS = [b'data: {"i":%d}\n\n' % i for i in range(5)] + [b"data: [DONE]\n\n"]
DONE = b"data: [DONE]\n\n"
# Every line end of the format, a BOM, a NUL, bytes that are no UTF-8, no last blank.
ODD = b"\xef\xbb\xbf: hi\r\n\r\ndata: a\rdata:b\r\rid: 1\n\ndata: \x00\xff\xfe\n\ndata"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
BROKEN = (
    b'data: {"error":{"message":"Stream error: connection closed",'
    b'"type":"stream_error"}}\n\n' + DONE
)


def stream(path: str = "/v1/chat/completions") -> bytes:
    """A request for an event stream."""
    return post(STREAM, path)


def ask(script: Script, request: bytes = b"", **rooms: object) -> Answer:
    """What one client gets of a stream."""
    answers: list[Answer] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answers.append(await client.ask(request or stream()))
        client.close()

    play(scene, script, **rooms)
    return answers[0]


async def settled(value: Callable[[], int], secs: float = 0.3) -> int:
    """Wait until a number has stayed the same for a while."""
    loop = asyncio.get_running_loop()
    last, since = value(), loop.time()

    def is_settled() -> bool:
        nonlocal last, since
        if value() != last:
            last, since = value(), loop.time()
        return loop.time() - since >= secs

    await eventually(is_settled)
    return last


# -- byte for byte -------------------------------------------------------------------


def test_each_write_of_a_worker_is_seen_before_the_next_is_sent() -> None:
    seen = 0

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for number, event in enumerate(EVENTS):
            await eventually(lambda: seen == number)
            await connection.chunk(event)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        nonlocal seen
        client = await stage.client()
        await client.send(stream())
        head = await client.head()  # before any event exists
        assert head.get("content-type") == "text/event-stream"
        assert head.get("transfer-encoding") == "chunked"
        assert head.get("content-length") is None
        for event in EVENTS:
            assert await client.chunk() == event
            seen += 1
        assert await client.chunk() == b""
        client.close()

    play(scene, script)


def test_half_an_event_is_not_kept_back_for_its_other_half() -> None:
    seen = 0
    halves = [b'data: {"a"', b":1}\n", b"\n"]

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for number, half in enumerate(halves):
            await eventually(lambda: seen == number)
            await connection.chunk(half)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        nonlocal seen
        client = await stage.client()
        await client.send(stream())
        await client.head()
        for half in halves:
            assert await client.chunk() == half
            seen += 1
        client.close()

    play(scene, script)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100_000])
@pytest.mark.parametrize("body", [b"".join(EVENTS), ODD], ids=["events", "odd"])
def test_no_byte_is_added_or_lost_however_a_workers_writes_are_split(
    size: int, body: bytes
) -> None:
    chunks = [body[at : at + 11] for at in range(0, len(body), 11)]
    framed = b"".join(b"%x;e=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    data = SSE_HEAD + b"transfer-encoding: chunked\r\n\r\n" + framed + b"0\r\n\r\n"

    async def script(connection: Connection, request: Received) -> None:
        for at in range(0, len(data), size):
            await connection.send(data[at : at + size])

    answer = ask(script)
    assert answer.body == body
    assert answer.is_whole


def test_a_stream_delimited_by_the_workers_close_is_relayed_chunked() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(SSE_HEAD + b"\r\n" + b"".join(EVENTS))
        connection.close()

    answer = ask(script)
    assert answer.get("transfer-encoding") == "chunked"
    assert answer.body == b"".join(EVENTS)
    assert answer.is_whole


def test_the_length_a_worker_gave_its_stream_is_kept() -> None:
    body = b"".join(EVENTS)

    async def script(connection: Connection, request: Received) -> None:
        await connection.send(SSE_HEAD + b"content-length: %d\r\n\r\n" % len(body))
        for event in EVENTS:
            await connection.send(event)

    answer = ask(script)
    assert answer.get("content-length") == str(len(body))
    assert answer.get("transfer-encoding") is None
    assert answer.body == body


def test_trailers_of_a_stream_are_dropped() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream("trailer: x-smg-error-code\r\n")
        await connection.chunk(EVENTS[0])
        await connection.send(b"0\r\nx-smg-error-code: forged\r\n\r\n")

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(stream())
        assert (answer.body, answer.get("trailer")) == (EVENTS[0], None)
        # Anything of the trailers would stand where the next response begins.
        assert (await client.ask(stream())).status == 200
        client.close()

    play(scene, script)


def test_a_connection_goes_on_behind_a_stream_on_both_sides() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(3):
            assert (await client.ask(stream())).body == EVENTS[0]
        assert stage.worker.accepted == 1
        client.close()

    play(scene, script)


# -- what is no event stream ---------------------------------------------------------


@pytest.mark.parametrize("status", [400, 429, 500, 503])
@pytest.mark.parametrize(
    "kind, content_type", [("json", "application/json"), ("html", "text/html")]
)
def test_a_workers_error_on_a_stream_request_keeps_its_status_and_type(
    status: int, kind: str, content_type: str
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"<no>", status, kind=kind)

    answer = ask(script)
    assert (answer.status, answer.body) == (status, b"<no>")
    assert answer.get("content-type") == content_type
    assert answer.get("content-length") == "4"
    assert answer.get("x-smg-error-code") is None
    assert answer.get("x-smg-routed-worker-id") is not None


def test_an_event_stream_keeps_an_error_status() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 500 Oh\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        await connection.chunk(EVENTS[0])
        await connection.end_stream()

    answer = ask(script)
    assert (answer.status, answer.body) == (500, EVENTS[0])
    assert answer.get("content-type") == "text/event-stream"


def test_events_nobody_asked_for_come_whole_with_a_length() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for event in EVENTS:
            await connection.chunk(event)
        await connection.end_stream()

    answer = ask(script, post())
    assert answer.get("content-length") == str(len(b"".join(EVENTS)))
    assert answer.get("content-type") == "text/event-stream"
    assert answer.body == b"".join(EVENTS)


def test_a_json_answer_to_a_stream_request_that_breaks_off_is_cut() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
            b'content-length: 99\r\n\r\n{"a":'
        )
        connection.close()

    answer = ask(script)
    assert (answer.status, answer.is_whole) == (200, False)


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


# -- keep-alive comments -------------------------------------------------------------


@pytest.mark.parametrize("event", [b"", b"data: 1\n\n", b"data: 1\r\n\r\n"])
@pytest.mark.parametrize(
    "path, ping",
    [
        ("/v1/chat/completions", b": ping\n\n"),
        ("/generate", b": ping\n\n"),
        ("/v1/messages", b'event: ping\ndata: {"type":"ping"}\n\n'),
    ],
)
def test_a_silent_stream_is_kept_alive_again_and_again(
    path: str, ping: bytes, event: bytes
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        if event:
            await connection.chunk(event)
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        now = asyncio.get_running_loop().time
        client = await stage.client()
        await client.send(stream(path))
        await client.head()
        if event:
            assert await client.chunk() == event
        began = now()
        assert await client.chunk() == ping
        assert now() - began > 0.7  # the second, less what the sweep may be early
        if event == b"":
            assert await client.chunk() == ping
            assert now() - began > 1.7
        client.close()

    play(scene, script, dispatch={"sse_keepalive_secs": 1})


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_nothing_is_put_inside_an_unfinished_event(path: str) -> None:
    pieces = [b'data: {"a":', b"1}\n", b"\n"]
    assert silent_between(pieces, stream(path)) == b'data: {"a":1}\n\n'


def test_no_comment_while_events_flow() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for _ in range(6):
            await asyncio.sleep(0.3)  # the pace itself is what is tested
            await connection.chunk(EVENTS[0])
        await connection.end_stream()

    answer = ask(script, dispatch={"sse_keepalive_secs": 1})
    assert answer.body == EVENTS[0] * 6


def test_no_comment_before_the_workers_head() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await asyncio.sleep(1.6)  # the silence itself is what is tested
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.end_stream()

    assert ask(script, dispatch={"sse_keepalive_secs": 1}).body == EVENTS[0]


def silent_between(
    pieces: list[bytes], request: bytes, head: bytes = b"", secs: float = 1.6
) -> bytes:
    """The body of a stream whose worker dawdles behind its first piece."""

    async def script(connection: Connection, received: Received) -> None:
        if head:
            await connection.send(head)
        else:
            await connection.start_stream()
        for number, piece in enumerate(pieces):
            if number == 1:
                await asyncio.sleep(secs)  # the silence itself is what is tested
            if head:
                await connection.send(piece)
            else:
                await connection.chunk(piece)
        if not head:
            await connection.end_stream()

    answer = ask(script, request, dispatch={"sse_keepalive_secs": 1})
    assert answer.is_whole
    return answer.body


def test_a_comment_stands_between_events_and_the_rest_follows() -> None:
    body = silent_between([EVENTS[0], EVENTS[1], DONE], stream())
    assert body == EVENTS[0] + b": ping\n\n" + EVENTS[1] + DONE


def test_no_comment_in_a_stream_of_a_set_length() -> None:
    head = SSE_HEAD + b"content-length: %d\r\n\r\n" % len(EVENTS[0] + EVENTS[1])
    assert silent_between(EVENTS[:2], stream(), head) == EVENTS[0] + EVENTS[1]


def test_no_comment_in_a_coded_stream() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream("content-encoding: gzip\r\n")
        await asyncio.sleep(1.6)  # the silence itself is what is tested
        await connection.chunk(b"\x1f\x8b\x08")
        await connection.end_stream()

    answer = ask(script, dispatch={"sse_keepalive_secs": 1})
    assert answer.body == b"\x1f\x8b\x08"


def test_no_comment_where_they_are_switched_off() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await asyncio.sleep(1.6)  # the silence itself is what is tested
        await connection.end_stream()

    assert ask(script, dispatch={"sse_keepalive_secs": 0}).body == EVENTS[0]


# -- backpressure --------------------------------------------------------------------


def test_a_slow_reader_holds_its_worker_and_gets_every_byte_in_order() -> None:
    total = 24 * 1024 * 1024
    step = 64 * 1024
    sent = 0
    said, heard = hashlib.sha256(), hashlib.sha256()

    async def script(connection: Connection, request: Received) -> None:
        nonlocal sent
        await connection.start_stream()
        while sent < total:
            piece = (b"%015d\n" % sent) * (step // 16)
            said.update(piece)
            await connection.chunk(piece)
            sent += step
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client(receive_buffer=8192)
        await client.send(stream())
        await client.head()
        held_at = await settled(lambda: sent)
        assert held_at < total * 2 // 3, "the worker was never held"
        # A little is read and a little more is sent, not all of the rest.
        for _ in range(4):
            heard.update(await client.chunk())
        assert await settled(lambda: sent) < total
        while data := await client.chunk():
            heard.update(data)
        assert sent == total
        assert heard.digest() == said.digest()
        client.close()

    play(scene, script)


def test_a_slow_reader_holds_nobody_else() -> None:
    async def script(connection: Connection, request: Received) -> None:
        if request.body != STREAM:
            await connection.answer(b"{}")
            return
        await connection.start_stream()
        while not connection.is_closed:
            await connection.chunk(b"x" * 65536)

    async def scene(stage: Stage) -> None:
        slow = await stage.client(receive_buffer=8192)
        await slow.send(stream())
        await slow.head()
        quick = await stage.client()
        for _ in range(20):
            assert (await quick.ask(post())).status == 200
        slow.reset()
        quick.close()

    play(scene, script)


def test_pipelined_requests_wait_until_their_client_reads() -> None:
    asked, size = 120, 256 * 1024

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"x" * size)

    async def scene(stage: Stage) -> None:
        client = await stage.client(receive_buffer=8192)
        await client.send(post() * asked)
        answered = await settled(lambda: len(stage.worker.received))
        assert answered < asked * 2 // 3, "responses pile up for a client"
        for _ in range(asked):
            assert len((await client.answer()).body) == size
        assert len(stage.worker.received) == asked
        client.close()

    play(scene, script)


def test_a_slow_reader_of_a_whole_answer_is_not_taken_for_idle() -> None:
    size = 16 * 1024 * 1024

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"x" * size)

    async def scene(stage: Stage) -> None:
        client = await stage.client(receive_buffer=65536)
        await client.send(post())
        left = int((await client.head()).get("content-length") or 0)
        assert left == size
        for _ in range(16):  # 2.4 s, beyond the idle timeout
            await asyncio.sleep(0.15)  # the pace itself is what is tested
            await client.reader.readexactly(512 * 1024)
            left -= 512 * 1024
        assert len(await client.reader.readexactly(left)) == left
        client.close()

    play(scene, script, clients={"idle_connection_timeout_secs": 1})


# -- HTTP/1.0 and HEAD ---------------------------------------------------------------


def test_a_client_of_http_1_0_gets_a_stream_that_ends_with_its_connection() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for event in EVENTS:
            await connection.chunk(event)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(stream().replace(b"HTTP/1.1", b"HTTP/1.0"))
        head = await client.head()
        assert head.get("transfer-encoding") is None
        assert head.get("content-length") is None
        assert head.get("connection") == "close"
        assert await client.until_closed() == b"".join(EVENTS)
        client.close()

    play(scene, script)


def test_a_broken_stream_to_http_1_0_carries_its_error_before_the_close() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        connection.close()

    answer = ask(script, stream().replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert answer.body == EVENTS[0] + BROKEN


def test_head_gets_the_length_and_no_body_and_the_connection_goes_on() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        get = await client.ask(b"GET /v1/models HTTP/1.1\r\nHost: g\r\n\r\n")
        await client.send(b"HEAD /v1/models HTTP/1.1\r\nHost: g\r\n\r\n")
        head = await client.answer(has_body=False)
        assert (head.status, head.get("content-length")) == (
            get.status,
            get.get("content-length"),
        )
        assert get.body
        await client.send(b"HEAD /v1/chat/completions HTTP/1.1\r\nHost: g\r\n\r\n")
        refused = await client.answer(has_body=False)
        assert (refused.status, refused.get("allow")) == (405, "POST")
        assert int(refused.get("content-length") or 0) > 0
        # A body byte of either would stand where this response begins.
        assert (await client.ask(post())).status == 200
        client.close()

    play(scene)
