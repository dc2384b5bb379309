"""Event streams pass byte for byte and at once; what is none keeps its shape."""

from __future__ import annotations

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import BROKEN, EVENTS, ODD, SSE_HEAD, ask, stream
from tests.fakes.client import post
from tests.fakes.worker import Connection, Received

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
