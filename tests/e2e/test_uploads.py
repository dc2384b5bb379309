"""Streamed uploads as they should go: large, slow, early answered, expected, piped."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import socket
import threading

import pytest

from smgproxy.core.clock import monotonic
from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.stage import Stage, eventually
from tests.e2e.uploads import (
    STREAMED,
    UploadedTo,
    UploadWorker,
    body_paths,
    play_upload,
    upload_head,
)
from tests.fakes.client import Client, post
from tests.fakes.worker import Received

MIB = 1024 * 1024
# More than the sockets on both sides and everything between them take.
BIG = 64 * MIB


async def take_and_answer(connection: UploadedTo, request: Received) -> None:
    request.body, is_whole = await connection.body_in()
    if is_whole:
        await connection.answer(b'{"ok":true}')


def test_a_large_upload_arrives_byte_for_byte() -> None:
    digest = hashlib.sha256()

    async def script(connection: UploadedTo, request: Received) -> None:
        while piece := await connection.chunk_in():
            digest.update(piece)
        await connection.answer(b"{}")

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        block = random.Random(7).randbytes(MIB)
        sent = hashlib.sha256()
        client = await stage.client()
        await client.send(upload_head(BIG))
        for number in range(BIG // MIB):
            piece = block[number:] + block[:number]
            sent.update(piece)
            await client.send(piece)
        assert (await client.answer()).status == 200
        assert digest.digest() == sent.digest()
        assert body_paths(stage) == {("streamed", "retry_forfeited"): 1}
        client.close()

    play_upload(scene, script, retries={})


def test_the_worker_gets_the_first_bytes_before_the_last_are_sent() -> None:
    first: list[bytes | None] = []

    async def script(connection: UploadedTo, request: Received) -> None:
        first.append(await connection.chunk_in())
        await take_and_answer(connection, request)

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(10) + b"12345")
        await eventually(lambda: first == [b"12345"])
        assert (await client.ask(b"67890")).status == 200
        assert worker.received[0].body == b"67890"
        client.close()

    play_upload(scene, script)


def test_the_worker_gets_the_head_before_any_byte_of_the_body() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(2))
        await eventually(lambda: worker.received)
        assert (await client.ask(b"{}")).status == 200
        client.close()

    play_upload(scene, take_and_answer)


def test_expect_is_answered_by_the_gateway_and_goes_no_further() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(2, "Expect: 100-continue\r\n"))
        assert (await client.head()).status == 100
        assert (await client.ask(b"{}")).status == 200
        assert worker.received[0].get("expect") is None
        client.close()

    play_upload(scene, take_and_answer)


@pytest.mark.parametrize("size", [2, 300_000])
def test_a_pipelined_request_waits_behind_the_upload(size: int) -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        body = b"x" * size
        await client.send(upload_head(size) + body[:-1])
        await client.send(body[-1:] + post(b"[2]") + post(b"[3]"))
        for _ in range(3):
            assert (await client.answer()).status == 200
        assert [one.body for one in worker.received] == [body, b"[2]", b"[3]"]
        client.close()

    play_upload(scene, take_and_answer)


# -- early answers -------------------------------------------------------------------


async def begin_upload(client: Client, length: int = 100_000_000) -> None:
    """Send a head and a little of the body."""
    await client.send(upload_head(length) + b"x" * 1000)


@pytest.mark.parametrize("is_closing", [True, False])
@pytest.mark.parametrize("status", [200, 400])
def test_an_early_answer_is_relayed_at_once(status: int, is_closing: bool) -> None:
    cut: list[bool] = []

    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.chunk_in()
        await connection.answer(
            b"early", status, "connection: close\r\n" if is_closing else ""
        )
        if is_closing:
            connection.close()
        else:
            _, is_whole = await connection.body_in()
            cut.append(not is_whole)
            connection.is_closed = True

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await begin_upload(client)
        answer = await client.answer()
        assert (answer.status, answer.body) == (status, b"early")
        assert answer.get("connection") == "close"
        assert await client.until_closed() == b""
        await eventually(lambda: is_closing or cut == [True])
        assert stage.gateway.upstream.counts()[worker.url] == (0, 0)
        assert stage.records[0].backend_errors == 0
        assert stage.responses() == {(status, ""): 1}
        client.close()

    play_upload(scene, script)


def test_an_early_answer_to_a_client_that_keeps_sending_is_not_lost() -> None:
    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.chunk_in()
        await connection.answer(b"no", 413, "connection: close\r\n")
        connection.reset()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        for _ in range(20):
            client = await stage.client()
            await client.send(upload_head(2 * MIB))
            for _ in range(2 * MIB // 65536):
                client.writer.write(b"x" * 65536)
            answer = await client.answer()
            assert (answer.status, answer.body) == (413, b"no")
            client.close()
        assert len(worker.received) == 20

    play_upload(scene, script)


def answer_and_reset(listening: socket.socket, may_answer: threading.Event) -> None:
    """A worker outside the gateway's loop: answers and closes with bytes unread."""
    sock, _ = listening.accept()
    with sock:
        sock.recv(1000)
        may_answer.wait()
        sock.sendall(b"HTTP/1.1 413 No\r\ncontent-length: 2\r\n\r\nno")


def test_an_answer_is_read_when_a_write_finds_the_connection_reset() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        may_answer = threading.Event()
        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = threading.Thread(
                target=answer_and_reset, args=(listening, may_answer)
            )
            thread.start()
            worker.port = listening.getsockname()[1]
            stage.gateway.registry.remove(stage.records[0])
            stage.register(worker, HttpPoolSettings())
            client = await stage.client()
            await client.send(upload_head(10 * MIB) + b"x" * 5000)
            await eventually(lambda: stage.records[0].load)
            await asyncio.sleep(0.1)  # the worker has its first bytes
            # With the loop standing still: first the client's bytes come in, then the
            # answer and the reset. So a write finds out before the answer is read.
            sock = client.writer.get_extra_info("socket")
            with socket.socket(fileno=os.dup(sock.fileno())) as raw:
                assert raw.send(b"x" * 200_000) > 100_000
            may_answer.set()
            thread.join()
            answer = await client.answer()
            assert (answer.status, answer.body) == (413, b"no")
            client.close()

    play_upload(scene, take_and_answer)


def test_an_early_event_stream_runs_beside_the_upload() -> None:
    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.start_stream()
        while piece := await connection.chunk_in():
            await connection.chunk(b"data: %d\n\n" % len(piece))
        await connection.end_stream()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(30))
        assert (await client.head()).status == 200
        for _ in range(3):
            await client.send(b"x" * 10)
            assert await client.chunk() == b"data: 10\n\n"
        assert await client.chunk() == b""
        assert await client.until_closed() == b""  # its head said so
        client.close()

    play_upload(scene, script)


def test_an_answer_ends_the_clock_of_the_upload() -> None:
    goes_on: list[bool] = []

    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await eventually(lambda: goes_on)
        await connection.chunk(b"data: 2\n\n")
        await connection.end_stream()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await begin_upload(client)
        await client.head()
        assert await client.chunk() == b"data: 1\n\n"
        # A sweep long behind the deadline finds nothing to stop.
        stage.gateway.listener._sweep(monotonic() + 1000)  # noqa: SLF001
        goes_on.append(True)
        assert await client.chunk() == b"data: 2\n\n"
        assert await client.chunk() == b""
        client.close()

    play_upload(scene, script, clients={"stream_body_stall_timeout_secs": 1})


# -- backpressure --------------------------------------------------------------------


def test_a_worker_that_reads_nothing_blocks_its_client() -> None:
    goes_on: list[bool] = []

    async def script(connection: UploadedTo, request: Received) -> None:
        await eventually(lambda: goes_on, 15)
        await take_and_answer(connection, request)

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(BIG))
        sock: socket.socket = client.writer.get_extra_info("socket")
        with socket.socket(fileno=os.dup(sock.fileno())) as raw:
            sent = await fill(raw)
        assert sent < BIG // 2, "nothing held the client back"
        (exchange,) = stage.gateway.dispatcher.running
        assert exchange.request.is_held
        assert exchange.request._backlog_bytes <= 1 * MIB  # noqa: SLF001
        goes_on.append(True)
        for _ in range(0, BIG - sent, MIB):
            await client.send(b"x" * min(MIB, BIG - sent))
            sent += min(MIB, BIG - sent)
        assert (await client.answer()).status == 200
        assert len(worker.received[0].body) == BIG
        client.close()

    play_upload(scene, script, **STREAMED)


async def fill(sock: socket.socket) -> int:
    """Send until the socket has taken nothing for a while; how much it took."""
    sent = 0
    refusals = 0
    while refusals < 100 and sent < BIG:
        try:
            sent += sock.send(b"x" * min(65536, BIG - sent))
            refusals = 0
        except BlockingIOError:
            refusals += 1
        await asyncio.sleep(0.002)
    return sent
