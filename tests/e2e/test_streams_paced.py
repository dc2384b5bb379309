"""Silent streams are kept alive, slow readers hold their worker."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import sys

import pytest

from smgproxy.downstream.http1 import Http1Connection
from smgproxy.downstream.listener import UNSENT_BYTES
from tests.e2e.stage import Stage, play
from tests.e2e.streaming import DONE, EVENTS, SSE_HEAD, ask, settled, stream
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Connection, Received

# Asks Linux for the bytes of a socket that were not sent yet (tcp(7)).
_SIOCOUTQNSD = 0x894B

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


def test_a_client_that_reads_nothing_has_little_in_the_kernel_either() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        while not connection.is_closed:
            await connection.chunk(b"x" * 65536)

    async def scene(stage: Stage) -> None:
        client = await stage.client(receive_buffer=8192)
        await client.send(stream())
        await client.head()
        (connection,) = stage.gateway.listener._connections
        assert isinstance(connection, Http1Connection)
        assert connection.transport is not None
        sock = connection.transport.get_extra_info("socket")

        def unsent() -> int:
            answer = fcntl.ioctl(sock.fileno(), _SIOCOUTQNSD, b"\0" * 4)
            return int.from_bytes(answer, sys.byteorder)

        assert 0 < await settled(unsent) < 2 * UNSENT_BYTES
        client.reset()

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
