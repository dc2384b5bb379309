"""Workers that answer, or end, with the request's body unread."""

from __future__ import annotations

import asyncio

from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import chat, post
from tests.fakes.worker import Connection, FakeWorker, Received, Script

# More than the sockets on the way to a worker that does not read will take.
BIG = chat("early", pad="x" * 24_000_000)


class EarlyWorker(FakeWorker):
    """A worker whose script begins at the head, with the body unread."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.model = "early"

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = Connection(reader, writer)
        self.accepted += 1
        self.open.add(connection)
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            request = Received("POST", "", head, b"")
            self.received.append(request)
            await self.script(connection, request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(connection)
            writer.close()


def early(script: Script, scene_part: str, status: int) -> None:
    """A worker that answers a big request before it has read it."""

    async def scene(stage: Stage) -> None:
        fake = EarlyWorker(script)
        await fake.start()
        record = stage.register(fake, HttpPoolSettings(timeout_secs=10))
        try:
            client = await stage.client()
            async with asyncio.timeout(5):
                answer = await client.ask(post(BIG))
            assert (answer.status, answer.body[:2]) == (status, scene_part.encode())
            assert len(fake.received) == 1, "an answered request was sent again"
            await eventually(lambda: not fake.open)
            pools = stage.gateway.upstream.counts()
            assert pools[fake.url] == (0, 0)
            assert record.load == 0
            assert (await client.ask(post())).status == 200
            client.close()
        finally:
            await fake.stop()

    play(scene)


def test_an_answer_before_the_body_was_read_is_relayed_and_the_connection_cut() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"no", 400)
        await connection.until_gone()

    early(script, "no", 400)


def test_an_early_answer_of_a_worker_that_then_closes_is_relayed() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 413 No\r\nconnection: close\r\ncontent-length: 2\r\n\r\nno"
        )
        connection.writer.write_eof()
        await connection.until_gone()

    early(script, "no", 413)


def test_an_early_stream_is_relayed() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"no")
        await connection.end_stream()
        await connection.until_gone()

    early(script, "no", 200)


def test_a_worker_that_ends_unanswered_with_the_body_unread_is_an_error_at_once() -> (
    None
):
    async def script(connection: Connection, request: Received) -> None:
        connection.writer.write_eof()
        await eventually(lambda: is_over, 8)  # reads no more, and does not close

    is_over = False

    async def scene(stage: Stage) -> None:
        nonlocal is_over
        fake = EarlyWorker(script)
        await fake.start()
        stage.register(fake, HttpPoolSettings(timeout_secs=10))
        try:
            client = await stage.client()
            async with asyncio.timeout(5):
                answer = await client.ask(post(BIG))
            code = answer.get("x-smg-error-code")
            assert (answer.status, code) == (500, "call_upstream_request_error")
            assert len(fake.received) == 2
            client.close()
        finally:
            is_over = True
            await fake.stop()

    play(scene)


def test_an_early_answer_does_not_leave_a_socket_to_a_worker_that_never_reads() -> None:
    is_over = False

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"no", 400)
        await eventually(lambda: is_over, 8)

    async def scene(stage: Stage) -> None:
        nonlocal is_over
        fake = EarlyWorker(script)
        await fake.start()
        stage.register(fake, HttpPoolSettings(timeout_secs=10))
        before = _sockets_to(fake.port)
        try:
            client = await stage.client()
            async with asyncio.timeout(5):
                assert (await client.ask(post(BIG))).status == 400
            await eventually(lambda: _sockets_to(fake.port) == before)
            client.close()
        finally:
            is_over = True
            await fake.stop()

    play(scene)


def _sockets_to(port: int) -> int:
    """Sockets that a program still holds whose far end is this loopback port."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        lines = [line.split() for line in table]
    far_end = f"0100007F:{port:04X}"
    return sum(line[2] == far_end and line[9] != "0" for line in lines)
