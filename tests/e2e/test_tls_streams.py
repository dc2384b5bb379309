"""Bodies and streams over TLS: whole, held by slow readers, cut when clients leave."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.e2e.secure import no_connection_left, plain_client
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import settled
from tests.fakes.certificates import Authority
from tests.fakes.client import STREAM, Client, post
from tests.fakes.worker import Connection, Received

GONE = {(499, "client_closed_request"): 1}
EVENT = b"data: 1\n\n"
SOON_SECS = 0.5


def test_a_large_upload_and_a_large_answer_arrive_whole(
    https: dict[str, Any], authority: Authority
) -> None:
    big = bytes(range(256)) * 32768
    body = b'{"pad":"%b"}' % (b"x" * (20 << 20))

    async def script(connection: Connection, request: Received) -> None:
        assert request.body == body
        await connection.answer(big, kind="text")

    async def scene(stage: Stage) -> None:
        client = await stage.client(tls=authority.trusting())
        answer = await client.ask(post(body))
        assert (answer.status, answer.body == big) == (200, True)
        client.close()
        await no_connection_left(stage)

    play(scene, script, tls=https)


def test_a_goodbye_waits_for_the_answer_before_it(
    https: dict[str, Any], authority: Authority
) -> None:
    big = bytes(range(256)) * 32768

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(big, kind="text")

    async def scene(stage: Stage) -> None:
        def read() -> bytes:
            with plain_client(stage, authority.trusting()) as wire:
                wire.sendall(post(headers="Connection: close\r\n"))
                # A recv that ended without a close_notify would raise.
                return b"".join(iter(lambda: wire.recv(65536), b""))

        got = await asyncio.to_thread(read)
        assert got.partition(b"\r\n\r\n")[2] == big
        await no_connection_left(stage)

    play(scene, script, tls=https)


def test_an_early_answer_to_an_upload_is_read_whole(
    https: dict[str, Any], authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client(tls=authority.trusting())
        head = b"POST /nowhere HTTP/1.1\r\nHost: g\r\nContent-Length: 4000000\r\n\r\n"
        client.writer.write(head + b"x" * 1_000_000)
        answer = await client.answer()
        assert (answer.status, answer.is_whole) == (404, True)
        assert await client.until_closed() == b""
        client.close()
        await no_connection_left(stage)

    play(scene, tls=https)


class Pushing:
    """A worker that streams as fast as it can, and counts."""

    def __init__(self) -> None:
        self.chunks = 0
        self.ended_at = 0.0

    async def script(self, connection: Connection, request: Received) -> None:
        """Push until cut."""
        await connection.start_stream()
        try:
            while not connection.is_closed:
                await connection.chunk(b"x" * 65536)
                self.chunks += 1
        finally:
            self.ended_at = time.monotonic()


def leave(client: Client, how: str) -> None:
    """End the connection in one of the ways there are under TLS."""
    if how == "reset":
        client.reset()
    elif how == "fin":
        client.finish_socket()
    else:
        client.close()  # close_notify


def test_a_slow_reader_holds_its_worker(
    https: dict[str, Any], authority: Authority
) -> None:
    worker = Pushing()

    async def scene(stage: Stage) -> None:
        client = await stage.client(8192, authority.trusting())
        await client.send(post(STREAM))
        await client.head()
        held_at = await settled(lambda: worker.chunks)
        # Sockets' buffers and one read each, not the gateway's memory.
        assert held_at * 65536 < 32 << 20
        read = 0
        while read < (held_at + 40) * 65536:
            read += len(await client.chunk())
        assert worker.chunks > held_at
        client.reset()

    play(scene, worker.script, tls=https)


@pytest.mark.parametrize("how", ["close_notify", "fin", "reset"])
def test_a_slow_reader_that_leaves_lets_its_worker_go(
    how: str, https: dict[str, Any], authority: Authority
) -> None:
    worker = Pushing()

    async def scene(stage: Stage) -> None:
        client = await stage.client(8192, authority.trusting())
        await client.send(post(STREAM))
        await client.head()
        await settled(lambda: worker.chunks)
        left_at = time.monotonic()
        leave(client, how)
        await eventually(lambda: worker.ended_at)
        assert worker.ended_at - left_at < SOON_SECS
        await eventually(lambda: stage.responses() == GONE)
        client.writer.transport.abort()

    play(scene, worker.script, tls=https)


@pytest.mark.parametrize("how", ["close_notify", "fin", "reset"])
@pytest.mark.parametrize("is_streaming", [False, True])
def test_a_client_that_leaves_cuts_its_worker(
    is_streaming: bool, how: str, https: dict[str, Any], authority: Authority
) -> None:
    cut_at = 0.0
    is_waiting = False

    async def script(connection: Connection, request: Received) -> None:
        nonlocal cut_at, is_waiting
        if is_streaming:
            await connection.start_stream()
            await connection.chunk(EVENT)
        is_waiting = True
        await connection.until_gone()
        cut_at = time.monotonic()

    async def scene(stage: Stage) -> None:
        client = await stage.client(tls=authority.trusting())
        await client.send(post(STREAM))
        if is_streaming:
            await client.head()
            assert await client.chunk() == EVENT
        await eventually(lambda: is_waiting)
        left_at = time.monotonic()
        leave(client, how)
        await eventually(lambda: cut_at)
        print(f"cut after {(cut_at - left_at) * 1000:.1f} ms")
        assert cut_at - left_at < SOON_SECS
        await eventually(lambda: stage.responses() == GONE)
        assert stage.records[0].backend_errors == 0
        client.writer.transport.abort()
        await no_connection_left(stage)

    play(scene, script, tls=https)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_leaves_while_its_reading_is_paused_is_found(
    how: str, https: dict[str, Any], authority: Authority
) -> None:
    is_waiting = False

    async def script(connection: Connection, request: Received) -> None:
        nonlocal is_waiting
        is_waiting = True
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client(tls=authority.trusting())
        await client.send(post())
        await eventually(lambda: is_waiting)
        # Pipelined requests, until the gateway reads no more.
        await client.send(post(b'{"pad":"%b"}' % (b"x" * 200)) * 400)
        leave(client, how)
        await eventually(lambda: stage.responses() == GONE)
        assert len(stage.worker.received) == 1
        client.writer.transport.abort()

    play(scene, script, tls=https)
