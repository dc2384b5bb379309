"""The client is gone: its worker is cut at once, and nothing is charged to it."""

from __future__ import annotations

import socket
import time

import pytest

from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, Client, chat, post
from tests.fakes.worker import Connection, FakeWorker, Received

# The contract says 50 ms; a busy machine gets the benefit of the doubt here. What it
# was is printed.
SOON_SECS = 0.5
# While reading is paused the end of the stream is found by looking (ruling 16).
PAUSED_SECS = 1.5
GONE = {(499, "client_closed_request"): 1}
EVENT = b"data: 1\n\n"


def leave(client: Client, how: str) -> None:
    """End the connection one way or the other."""
    if how == "reset":
        client.reset()
    else:
        client.finish()


def check_soon(secs: float, limit_secs: float = SOON_SECS) -> None:
    """Say how long a worker ran on for nobody, and that it was not long."""
    print(f"cut after {secs * 1000:.1f} ms")
    assert secs < limit_secs


class Cut:
    """A worker that waits to be cut, and when it was."""

    def __init__(self, *said: bytes) -> None:
        self._said = said
        self.is_waiting = False
        self.at = 0.0

    async def script(self, connection: Connection, request: Received) -> None:
        """Say what there is to say, then wait for the end."""
        for data in self._said:
            await connection.send(data)
        self.is_waiting = True
        await connection.until_gone()
        self.at = time.monotonic()


HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
WHOLE_EVENT = b"9\r\n" + EVENT + b"\r\n"
HALF_EVENT = b"6\r\ndata: \r\n"
PHASES = {
    "buffered": (post(), (), 0),
    "half an answer": (post(), (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",), 0),
    "half a head": (post(), (b"HTTP/1.1 200 OK\r\nconte",), 0),
    "before the head": (post(STREAM), (), 0),
    "before the first event": (post(STREAM), (HEAD,), 1),
    "between events": (post(STREAM), (HEAD, WHOLE_EVENT), 2),
    "inside an event": (post(STREAM), (HEAD, HALF_EVENT), 2),
    "inside a chunk": (post(STREAM), (HEAD, b"9\r\ndata"), 2),
}


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("phase", PHASES)
def test_a_worker_is_cut_when_its_client_leaves(phase: str, how: str) -> None:
    request, said, seen = PHASES[phase]
    cut = Cut(*said)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request)
        await eventually(lambda: cut.is_waiting)
        if seen:
            await client.head()
        if seen > 1:
            await client.chunk()
        left_at = time.monotonic()
        leave(client, how)
        await eventually(lambda: cut.at)
        check_soon(cut.at - left_at)
        await eventually(lambda: stage.responses() == GONE)
        await eventually(lambda: not stage.gateway.listener.open_connections)
        assert stage.gateway.upstream.counts()[stage.worker.url] == (0, 0)
        record = stage.records[0]
        assert (record.load, record.backend_errors, record.timeouts) == (0, 0, 0)
        assert len(stage.worker.received) == 1, "sent again for nobody"
        client.close()

    play(scene, cut.script)


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("framing", ["sized", "chunked", "expecting"])
def test_a_client_that_leaves_within_its_upload_reaches_no_worker(
    framing: str, how: str
) -> None:
    begun = {
        "sized": post()[:-5],
        "chunked": b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n"
        b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5\r\n{"mod\r\n',
        "expecting": post(headers="Expect: 100-continue\r\n").partition(b"{")[0],
    }

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(begun[framing])
        if framing == "expecting":
            assert (await client.head()).status == 100
        await eventually(lambda: stage.gateway.dispatcher.running)
        leave(client, how)
        await eventually(lambda: stage.responses() == GONE)
        assert stage.worker.accepted == 0
        assert stage.records[0].backend_errors == 0
        client.close()

    play(scene)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_leaves_takes_its_pipelined_requests_along(how: str) -> None:
    cut = Cut()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post() * 3)
        await eventually(lambda: cut.is_waiting)
        left_at = time.monotonic()
        leave(client, how)
        await eventually(lambda: cut.at)
        check_soon(cut.at - left_at)
        await eventually(lambda: stage.responses() == GONE)
        assert len(stage.worker.received) == 1
        client.close()

    play(scene, cut.script)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_leaves_while_its_reading_is_paused_is_found(how: str) -> None:
    cut = Cut()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: cut.is_waiting)
        # Enough to pause reading, little enough for the FIN to arrive behind it.
        await client.send(post(b'{"pad":"%b"}' % (b"x" * 200)) * 200)
        await client.send(b"x" * 20_000)
        left_at = time.monotonic()
        leave(client, how)
        await eventually(lambda: cut.at)
        check_soon(cut.at - left_at, PAUSED_SECS)
        await eventually(lambda: stage.responses() == GONE)
        assert stage.records[0].backend_errors == 0
        assert len(stage.worker.received) == 1
        client.close()

    play(scene, cut.script)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_slow_reader_that_leaves_lets_its_held_worker_go(how: str) -> None:
    sent = 0
    gone_at = 0.0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal sent, gone_at
        await connection.start_stream()
        try:
            while not connection.is_closed:
                await connection.chunk(b"x" * 65536)
                sent += 1
        finally:
            gone_at = time.monotonic()

    async def scene(stage: Stage) -> None:
        client = await stage.client(receive_buffer=8192)
        await client.send(post(STREAM))
        await client.head()
        record = stage.worker.open
        await eventually(
            lambda: any(c.writer.transport.get_write_buffer_size() for c in record)
        )
        left_at = time.monotonic()
        leave(client, how)
        await eventually(lambda: gone_at)
        check_soon(gone_at - left_at)
        await eventually(lambda: stage.responses() == GONE)
        assert stage.records[0].backend_errors == 0
        client.writer.transport.abort()

    play(scene, script)


def test_a_client_that_leaves_behind_its_answer_is_no_lost_client() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post())).status == 200
        client.reset()
        await eventually(lambda: not stage.gateway.listener.open_connections)
        assert stage.responses() == {(200, ""): 1}
        assert stage.gateway.upstream.counts()[stage.worker.url] == (1, 0)

    play(scene)


def test_those_who_stay_notice_nothing_of_those_who_leave() -> None:
    is_over = False

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENT)
        await eventually(lambda: is_over or connection.writer.transport.is_closing())
        if is_over:
            await connection.chunk(EVENT)
            await connection.end_stream()

    async def scene(stage: Stage) -> None:
        nonlocal is_over
        clients = [await stage.client() for _ in range(20)]
        for client in clients:
            await client.send(post(STREAM))
        for client in clients:
            await client.head()
            assert await client.chunk() == EVENT
        for number, client in enumerate(clients[::2]):
            leave(client, "reset" if number % 2 else "fin")
        await eventually(lambda: stage.records[0].load == 10)
        is_over = True
        for client in clients[1::2]:
            assert await client.chunk() == EVENT
            assert await client.chunk() == b""
        assert stage.responses() == {(499, "client_closed_request"): 10, (200, ""): 10}
        assert stage.records[0].backend_errors == 0
        for client in clients:
            client.close()

    play(scene, script)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_leaves_at_once_leaves_nothing(how: str) -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(40):
            client = await stage.client()
            client.writer.write(post())
            leave(client, how)
            client.close()
        await eventually(lambda: not stage.gateway.listener.open_connections)
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert stage.records[0].load == 0
        assert stage.records[0].backend_errors == 0

    play(scene)


def test_a_client_that_leaves_while_its_worker_is_dialled_leaves_nothing() -> None:
    async def scene(stage: Stage) -> None:
        # Nobody accepts here, and two connections fill the queue: a third one hangs.
        full = FakeWorker()
        full.model = "full"
        with socket.socket() as door, socket.socket() as one, socket.socket() as two:
            door.bind(("127.0.0.1", 0))
            door.listen(0)
            full.port = door.getsockname()[1]
            for filler in (one, two):
                filler.setblocking(False)
                filler.connect_ex(door.getsockname())
            record = stage.register(full, HttpPoolSettings())
            client = await stage.client()
            await client.send(post(chat("full")))
            await eventually(lambda: record.load == 1)
            left_at = time.monotonic()
            client.finish()
            await eventually(lambda: stage.responses() == GONE)
            assert time.monotonic() - left_at < SOON_SECS
            assert (record.load, record.backend_errors) == (0, 0)
            client.close()

    play(scene)
