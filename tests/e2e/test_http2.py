"""HTTP/2 clients by prior knowledge, up to the worker and back."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import httpx
import pytest
import ujson

from tests.e2e.stage import Stage, eventually, play
from tests.e2e.test_client_gone import EVENT, GONE, HEAD, WHOLE_EVENT, Cut, check_soon
from tests.fakes.client import CHAT, STREAM
from tests.fakes.http2_frames import Http2Client
from tests.fakes.worker import Connection, Received, Script, say_ok

PATH = "/v1/chat/completions"
BIG = b'{"a":"' + b"x" * (10 * 1024 * 1024) + b'"}'
JSON_TYPE = {"content-type": "application/json"}
HttpxScene = Callable[[Stage, httpx.AsyncClient], Awaitable[None]]


def play_httpx(scene: HttpxScene, script: Script = say_ok, **rooms: object) -> None:
    """A scene whose client is httpx over one HTTP/2 connection."""

    async def run(stage: Stage) -> None:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{stage.port}",
            http1=False,
            http2=True,
            trust_env=False,
            timeout=15,
            limits=httpx.Limits(max_connections=1),
        ) as client:
            await scene(stage, client)
        await eventually(lambda: not stage.gateway.listener.open_connections)
        assert stage.gateway.listener.http2.connections == 1
        # An answer that comes before the body has ended stops the upload.
        assert set(stage.gateway.listener.http2.errors) <= {0}

    play(run, script, **rooms)


def play_h2(
    scene: Callable[[Stage, Http2Client], Awaitable[None]],
    script: Script = say_ok,
    window: int = 1 << 20,
    **rooms: object,
) -> None:
    """A scene whose client decides about every frame."""

    async def run(stage: Stage) -> None:
        client = await Http2Client.connect(stage.port, window)
        await scene(stage, client)
        client.close()
        await eventually(lambda: not stage.gateway.listener.open_connections)

    play(run, script, **rooms)


async def echo(connection: Connection, request: Received) -> None:
    """Answers with what it was asked."""
    await connection.answer(ujson.dumps({"size": len(request.body)}).encode())


# -- httpx ---------------------------------------------------------------------------


def test_a_chat_is_answered() -> None:
    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        answer = await client.post(PATH, content=CHAT, headers=JSON_TYPE)
        assert (answer.http_version, answer.status_code) == ("HTTP/2", 200)
        assert answer.json() == {"ok": True}
        assert answer.headers["x-request-id"]
        assert answer.headers["date"]
        assert not {"connection", "transfer-encoding"} & set(answer.headers)
        received = stage.worker.received[0]
        assert received.body == CHAT
        assert received.raw_head.startswith(b"POST /v1/chat/completions HTTP/1.1\r\n")
        assert not [name for name, _ in received.headers if name.startswith(":")]

    play_httpx(scene)


def test_a_stream_comes_event_by_event() -> None:
    seen = 0

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream("keep-alive: timeout=5\r\n")
        for number in range(5):
            await eventually(lambda: seen == number)
            await connection.chunk(b"data: %d\n\n" % number)
        await eventually(lambda: seen == 5)
        await connection.end_stream()

    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        nonlocal seen
        async with client.stream(
            "POST", PATH, content=STREAM, headers=JSON_TYPE
        ) as answer:
            assert answer.headers["content-type"] == "text/event-stream"
            assert not {"keep-alive", "transfer-encoding"} & set(answer.headers)
            async for event in answer.aiter_bytes():
                assert event == b"data: %d\n\n" % seen
                seen += 1
        assert seen == 5

    play_httpx(scene, script)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/nowhere", CHAT, 404),
        ("DELETE", PATH, b"", 405),
        ("POST", PATH, b"no object", 400),
        ("POST", PATH, b"", 400),
        ("POST", PATH, CHAT.replace(b'"m"', b'"none"'), 404),
    ],
)
def test_errors_are_those_of_http_1(
    method: str, path: str, body: bytes, status: int
) -> None:
    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        answer = await client.request(method, path, content=body, headers=JSON_TYPE)
        async with httpx.AsyncClient(trust_env=False) as old:
            expected = await old.request(
                method, answer.url, content=body, headers=JSON_TYPE
            )
        assert answer.status_code == expected.status_code == status
        assert answer.content == expected.content
        own = {"date", "x-request-id", "connection"}
        names = {name for name in answer.headers} - own
        assert names == {name for name in expected.headers} - own

    play_httpx(scene)


def test_a_workers_error_is_relayed() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b'{"error":"full"}', 422)

    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        answer = await client.post(PATH, content=CHAT, headers=JSON_TYPE)
        assert (answer.status_code, answer.content) == (422, b'{"error":"full"}')

    play_httpx(scene, script)


def test_head_has_the_length_and_no_body() -> None:
    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        whole = await client.get("/v1/models")
        head = await client.head("/v1/models")
        assert (whole.status_code, head.status_code) == (200, 200)
        assert head.headers["content-length"] == str(len(whole.content))
        assert head.content == b""

    play_httpx(scene)


def test_100_requests_at_once_on_one_connection() -> None:
    async def script(connection: Connection, request: Received) -> None:
        number = json.loads(request.body)["messages"][0]["content"]
        await asyncio.sleep(int(number) % 7 / 1000)
        await connection.answer(request.body)

    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        bodies = [CHAT.replace(b"hi", b"%d" % number) for number in range(100)]
        answers = await asyncio.gather(
            *(client.post(PATH, content=body, headers=JSON_TYPE) for body in bodies)
        )
        assert [answer.content for answer in answers] == bodies

    play_httpx(scene, script)


def test_a_large_upload_arrives() -> None:
    text = b"x" * (20 * 1024 * 1024)
    body = CHAT.replace(b"hi", text)

    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        answer = await client.post(PATH, content=body, headers=JSON_TYPE)
        assert answer.json() == {"size": len(body)}
        assert stage.worker.received[0].body == body

    play_httpx(scene, echo)


def test_a_large_answer_arrives() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(BIG)

    async def scene(stage: Stage, client: httpx.AsyncClient) -> None:
        answer = await client.post(PATH, content=CHAT, headers=JSON_TYPE)
        assert answer.content == BIG

    play_httpx(scene, script)


# -- frame by frame ------------------------------------------------------------------


def test_5000_streams_reset_in_mid_body_leave_room_for_a_large_answer() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(BIG)

    async def scene(stage: Stage, client: Http2Client) -> None:
        for _ in range(5000):
            stream_id = await client.open(("content-length", "100000"))
            await client.body(stream_id, b"x" * 16000, end=False)
            await client.reset(stream_id)
        answer = await client.ask()
        assert (answer.status, len(answer.body)) == (200, len(BIG))
        assert answer.body == BIG
        assert stage.gateway.listener.http2.resets == 5000
        assert stage.gateway.listener.http2.errors == {}
        assert len(stage.worker.received) == 1

    play_h2(scene, script)


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_worker_is_cut_when_its_client_takes_the_stream_back(how: str) -> None:
    cut = Cut(HEAD, WHOLE_EVENT)

    async def scene(stage: Stage, client: Http2Client) -> None:
        stream_id = await client.post(STREAM)
        answer = client.answers[stream_id]
        await client.until(lambda: answer.body == EVENT)
        left_at = time.monotonic()
        if how == "reset":
            await client.reset(stream_id)
        else:
            client.close()
        await eventually(lambda: cut.at)
        check_soon(cut.at - left_at)
        await eventually(lambda: stage.responses() == GONE)
        assert stage.gateway.upstream.counts()[stage.worker.url] == (0, 0)
        assert len(stage.worker.received) == 1

    play_h2(scene, cut.script)


def test_a_stream_taken_back_leaves_its_siblings_alone() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await eventually(lambda: is_reset)
        await connection.chunk(b"data: 2\n\n")
        await connection.end_stream()

    is_reset = False

    async def scene(stage: Stage, client: Http2Client) -> None:
        nonlocal is_reset
        streams = [await client.post(STREAM) for _ in range(3)]
        answers = [client.answers[stream_id] for stream_id in streams]
        await client.until(lambda: all(answer.body for answer in answers))
        await client.reset(streams[1])
        await eventually(lambda: stage.responses() == GONE)
        is_reset = True
        await client.until(lambda: answers[0].is_over and answers[2].is_over)
        assert answers[0].body == answers[2].body == b"data: 1\n\ndata: 2\n\n"
        assert answers[0].is_whole and answers[2].is_whole

    play_h2(scene, script)


def test_an_upload_taken_back_reaches_no_worker() -> None:
    async def scene(stage: Stage, client: Http2Client) -> None:
        stream_id = await client.open()
        await client.body(stream_id, b'{"model":', end=False)
        await eventually(lambda: stage.gateway.dispatcher.running)
        await client.reset(stream_id)
        await eventually(lambda: stage.responses() == GONE)
        assert stage.worker.accepted == 0
        assert (await client.ask()).status == 200

    play_h2(scene)


def test_a_client_that_gives_no_window_blocks_the_worker_and_no_sibling() -> None:
    sent = 0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal sent
        if b"stream" not in request.body:
            await say_ok(connection, request)
            return
        await connection.start_stream()
        for _ in range(400):
            await connection.chunk(b"data: " + b"x" * 65_000 + b"\n\n")
            sent += 1
        await connection.end_stream()

    async def scene(stage: Stage, client: Http2Client) -> None:
        client.is_reading = False
        slow = client.answers[await client.post(STREAM)]
        await client.until(lambda: len(slow.body) == 100_000)
        for _ in range(20):
            assert (await client.ask()).status == 200
        assert len(slow.body) == 100_000
        assert sent < 300, "26 MB do not fit into sockets"
        client.is_reading = True
        client.h2.increment_flow_control_window(1 << 25)
        client.h2.increment_flow_control_window(1 << 25, 1)
        await client.flush()
        await client.until(lambda: slow.is_over)
        assert slow.is_whole
        assert len(slow.body) == 400 * 65_008

    play_h2(scene, script, 100_000)


def test_a_stop_lets_a_stream_end_and_refuses_what_comes_behind_goaway() -> None:
    is_stopping = False

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENT)
        await eventually(lambda: is_stopping)
        await connection.chunk(EVENT)
        await connection.end_stream()

    async def scene(stage: Stage, client: Http2Client) -> None:
        nonlocal is_stopping
        answer = client.answers[await client.post(STREAM)]
        await client.until(lambda: answer.body)
        stage.gateway.listener.drain()
        await client.until(lambda: client.goaway is not None)
        is_stopping = True
        while not client.is_closed:
            data = await client._client.reader.read(65536)
            client.is_closed = not data
        assert client.goaway == 0
        assert stage.responses() == {(200, ""): 1}

    play_h2(scene, script)


def test_a_worker_that_breaks_off_resets_the_stream_or_says_so() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n" + WHOLE_EVENT
        )
        connection.reset()

    async def scene(stage: Stage, client: Http2Client) -> None:
        answer = await client.ask(STREAM)
        assert answer.status == 200
        assert answer.body.startswith(EVENT)
        assert answer.body.endswith(b"data: [DONE]\n\n")
        assert b'"stream_error"' in answer.body
        assert answer.is_whole

    play_h2(scene, script)
