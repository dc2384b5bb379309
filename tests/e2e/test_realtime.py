"""GET /v1/realtime: sessions between a client and a worker, over real sockets."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Client, post
from tests.fakes.websocket import (
    ACCEPT,
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Peer,
    RealtimeWorker,
    SocketClient,
    accept,
    close_payload,
    echo,
    frame,
    upgrade,
)
from tests.fakes.worker import Connection, Received


def test_messages_go_both_ways_as_they_are() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.text("hello")
        got = await client.read()
        assert (got.opcode, got.payload, got.is_masked) == (TEXT, b"hello", False)
        await client.leave()

    play(scene, echo, kind=RealtimeWorker)


def test_the_answer_has_the_fields_of_a_handshake_and_the_request_id() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port, headers="X-Request-ID: abc\r\n")
        names = sorted(name for name, _ in client.answer.headers)
        assert names == [
            *("connection", "date", "sec-websocket-accept", "upgrade", "x-request-id")
        ]
        assert client.answer.get("sec-websocket-accept") == ACCEPT
        assert client.answer.get("upgrade") == "websocket"
        assert client.answer.get("x-request-id") == "abc"
        await client.leave()

    play(scene, echo, kind=RealtimeWorker)


def test_the_worker_gets_the_model_a_key_of_the_gateways_and_the_allowed_headers() -> (
    None
):
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(
            stage.port,
            "?intent=x&model=%6D&call_id=1",
            "Authorization: Bearer sk\r\nCookie: a=b\r\nOrigin: http://o\r\n"
            "OpenAI-Beta: realtime=v1\r\nX-Request-ID: r1\r\nUser-Agent: u\r\n",
        )
        got = stage.worker.received[0]
        assert got.path == "/v1/realtime?model=m"
        assert got.get("sec-websocket-key") != "dGhlIHNhbXBsZSBub25jZQ=="
        names = {name.lower(): value for name, value in got.headers}
        names.pop("sec-websocket-key")
        assert names == {
            "authorization": "Bearer sk",
            "x-request-id": "r1",
            "connection": "Upgrade",
            "upgrade": "websocket",
            "sec-websocket-version": "13",
            "accept": "*/*",
            "host": f"127.0.0.1:{stage.worker.port}",
        }
        await client.leave()

    play(scene, echo, kind=RealtimeWorker)


def test_a_models_name_is_encoded_for_the_worker() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].models = [{"id": "Qwen/Qwen3 ASR"}]
        stage.gateway.registry.changed()
        client = await SocketClient.open(stage.port, "?model=Qwen/Qwen3+ASR")
        path = stage.worker.received[0].path
        assert path == "/v1/realtime?model=Qwen%2FQwen3%20ASR"
        await client.leave()

    play(scene, echo, kind=RealtimeWorker)


def test_frames_keep_opcode_fragments_and_their_clients_mask() -> None:
    seen: list[bytes] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        while True:
            got = await peer.read()
            seen.append(got.raw)
            if got.opcode == CLOSE:
                await peer.send(CLOSE, got.payload)
                break
        connection.close()

    sent = [
        frame(TEXT, b"one", final=False, mask=b"abcd"),
        frame(PING, b"between", mask=b"efgh"),
        frame(CONTINUATION, b"", final=False, mask=b"ijkl"),
        frame(CONTINUATION, b"two", mask=b"mnop"),
        frame(BINARY, b"", mask=b"qrst"),
        frame(PONG, b"unasked", mask=b"uvwx"),
        frame(BINARY, os.urandom(70000), mask=b"yzyz"),
        frame(CLOSE, close_payload(4321, "why"), mask=b"0000"),
    ]

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        for one in sent:
            await client.send_raw(one)
        got = await client.read()
        assert (got.code, got.reason) == (4321, "why")
        assert seen == sent
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_ping_is_answered_once_and_by_the_other_side() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.send(PING, b"are you there")
        await client.text("next")
        assert (await client.read()).opcode == PONG
        assert (await client.read()).payload == b"next"
        await client.leave()

    play(scene, echo, kind=RealtimeWorker)


def test_what_comes_in_one_segment_with_a_handshake_is_not_lost() -> None:
    async def script(connection: Connection, request: Received) -> None:
        hello = frame(TEXT, b"session.created")
        peer = await accept(connection, request, early=hello)
        got = await peer.read()
        await peer.send(TEXT, b"got " + got.payload)
        await peer.send(CLOSE, (await peer.read()).payload)
        connection.close()

    async def scene(stage: Stage) -> None:
        early = frame(TEXT, b"early", mask=b"abcd")
        client = await SocketClient.open(stage.port, early=early)
        assert (await client.read()).payload == b"session.created"
        assert (await client.read()).payload == b"got early"
        await client.leave()

    play(scene, script, kind=RealtimeWorker)


def test_messages_of_20_mb_go_both_ways() -> None:
    big = os.urandom(20 * 1024 * 1024)

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        sending = asyncio.create_task(client.send(BINARY, big))
        got = await client.read()
        assert got.payload == big
        await sending
        await client.leave()

    play(scene, echo, kind=RealtimeWorker)


@pytest.mark.parametrize("from_worker", [True, False])
def test_a_message_beyond_the_limit_is_closed_with_1009(from_worker: bool) -> None:
    seen: list[int] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        if from_worker:
            await peer.send(BINARY, b"*" * 5000)
        got = await peer.read()
        seen.append(got.code)
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        if not from_worker:
            await client.send(BINARY, b"*" * 5000)
        got = await client.read()
        await eventually(lambda: seen)
        assert (got.code, seen) == ((1011, [1009]) if from_worker else (1009, [1001]))
        client.client.close()

    limits = {"realtime_max_message_bytes": 4096}
    play(scene, script, kind=RealtimeWorker, realtime=limits)


# -- which worker, and what a session holds ------------------------------------------


def test_only_labelled_workers_are_asked_the_least_loaded_first() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].labels = {"realtime": "false"}
        stage.gateway.registry.changed()
        clients = [await SocketClient.open(stage.port) for _ in range(4)]
        assert [len(each.received) for each in stage.workers] == [0, 2, 2]
        assert [record.load for record in stage.records] == [0, 2, 2]
        for client in clients:
            await client.leave()

    play(scene, echo, echo, echo, kind=RealtimeWorker)


def test_a_session_holds_its_permit_to_its_end() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        other = await stage.client()
        answer = await other.ask(post())
        assert answer.status == 429
        assert answer.get("x-smg-error-code") == "admission_queue_full"
        assert (await other.ask(upgrade())).status == 429
        await client.leave()
        again = await SocketClient.open(stage.port)
        await again.leave()
        other.close()

    limits = {"max_concurrent_requests": 1, "queue_size": 0}
    play(scene, echo, kind=RealtimeWorker, limiter=limits)


def test_a_client_that_does_not_read_holds_its_worker() -> None:
    sent = 0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal sent
        peer = await accept(connection, request)
        piece = b"*" * 65536
        while sent < 1024 and not connection.is_closed:
            await peer.send(BINARY, piece)
            sent += 1
        await peer.send(CLOSE)
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port, receive_buffer=16384)
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 512, "64 KiB each, into the kernel's buffers"
        count = 0
        while (await client.read()).opcode == BINARY:
            count += 1
        assert count == 1024
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_worker_that_does_not_read_holds_its_client() -> None:
    go_on = asyncio.Event()
    got = 0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal got
        peer = await accept(connection, request)
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await go_on.wait()
        connection.writer.transport.resume_reading()  # type: ignore[attr-defined]
        while True:
            one = await peer.read()
            if one.opcode == CLOSE:
                break
            got += 1
        await peer.send(CLOSE)
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(1024):
                await client.send(BINARY, b"*" * 65536)
                sent += 1
            await client.close()

        flooding = asyncio.create_task(flood())
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 512
        go_on.set()
        assert (await client.read()).opcode == CLOSE
        assert got == 1024
        await flooding
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_sessions_are_counted() -> None:
    async def scene(stage: Stage) -> None:
        stats = stage.gateway.realtime.stats
        client = await SocketClient.open(stage.port)
        assert (stats.open, stats.opened) == (1, 1)
        await client.text("12345")
        await client.read()
        await client.leave()
        await eventually(lambda: stats.open == 0)
        assert stats.closes == {("client", "1000"): 1}
        assert stats.from_clients == 11 + 8
        assert stats.from_workers == 7 + 4
        await eventually(lambda: stage.responses("/v1/realtime") == {(101, ""): 1})

    play(scene, echo, kind=RealtimeWorker)


async def _ask_raw(stage: Stage, data: bytes) -> Client:
    client = await stage.client()
    await client.send(data)
    return client


def test_a_session_may_follow_other_requests_on_its_connection() -> None:
    async def scene(stage: Stage) -> None:
        client = await _ask_raw(stage, post() + upgrade())
        assert (await client.answer()).status == 200
        assert (await client.head()).status == 101
        peer = Peer(client.reader, client.send, True)
        await peer.text("x")
        assert (await peer.read()).payload == b"x"
        await peer.close(1000)
        assert (await peer.read()).code == 1000
        client.close()

    async def script(connection: Connection, request: Received) -> None:
        if request.method == "GET":
            await echo(connection, request)
        else:
            await connection.answer(b"{}")

    play(scene, script, kind=RealtimeWorker)
