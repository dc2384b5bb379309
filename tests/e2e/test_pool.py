"""Worker connections: reused, expired, replaced, and never used once they are wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.fleet.worker import HttpPoolSettings
from smgproxy.routing.router import RoutingOptions
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import CHAT, STREAM, chat, post
from tests.fakes.worker import Connection, Received

OK = b'{"ok":true}'
WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def counts(stage: Stage) -> tuple[int, int]:
    """Idle and busy connections to the first worker."""
    return stage.gateway.upstream.counts()[stage.worker.url]


# -- reuse ---------------------------------------------------------------------------


class Gate:
    """A worker that answers when the test lets it."""

    def __init__(self) -> None:
        self.is_open = False

    async def script(self, connection: Connection, request: Received) -> None:
        await eventually(lambda: self.is_open)
        await connection.answer(OK)


def test_requests_one_after_another_share_a_connection() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(5):  # the clients' connections have no part in it
            client = await stage.client()
            assert (await client.ask(post())).body == OK
            client.close()
        assert stage.worker.accepted == 1
        assert counts(stage) == (1, 0)

    play(scene)


def test_requests_at_once_have_a_connection_each() -> None:
    gate = Gate()

    async def scene(stage: Stage) -> None:
        clients = [await stage.client() for _ in range(8)]
        for client in clients:
            await client.send(post())
        await eventually(lambda: len(stage.worker.received) == 8)
        assert counts(stage) == (0, 8)
        gate.is_open = True
        for client in clients:
            assert (await client.answer()).body == OK
            client.close()
        assert counts(stage) == (8, 0)

    play(scene, gate.script)


KEEPS_ONE, DIALS_ANEW = 1, 3
NO_RETRIES: dict[str, Any] = {"retries": RetryOptions(disable_retries=True)}
# Its policy reads the prompt.
BUFFERED: dict[str, Any] = {**NO_RETRIES, "routing": RoutingOptions("cache_aware")}


@pytest.mark.parametrize(
    ("size", "rooms", "connections"),
    [
        (100, NO_RETRIES, KEEPS_ONE),
        (65536, NO_RETRIES, KEEPS_ONE),
        (65537, NO_RETRIES, DIALS_ANEW),
        (100, BUFFERED, KEEPS_ONE),
        (1048575, BUFFERED, KEEPS_ONE),
        (1048576, BUFFERED, DIALS_ANEW),
        (1048576, {"routing": RoutingOptions("cache_aware")}, KEEPS_ONE),
    ],
)
def test_only_large_bodies_that_have_one_attempt_get_connections_of_their_own(
    size: int, rooms: dict[str, Any], connections: int
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(3):
            body = chat(pad="x" * (size - len(chat(pad=""))))
            assert (await client.ask(post(body))).status == 200
        assert stage.worker.accepted == connections
        client.close()

    play(scene, **rooms)


def test_no_more_connections_are_kept_idle_than_the_worker_was_given() -> None:
    gate = Gate()

    async def scene(stage: Stage) -> None:
        stage.records[0].http_pool = HttpPoolSettings(pool_max_idle_per_host=2)
        clients = [await stage.client() for _ in range(5)]
        for client in clients:
            await client.send(post())
        await eventually(lambda: len(stage.worker.received) == 5)
        gate.is_open = True
        for client in clients:
            assert (await client.answer()).body == OK
            client.close()
        assert counts(stage) == (2, 0)
        await eventually(lambda: len(stage.worker.open) == 2)

    play(scene, gate.script)


# -- the end of an idle connection ---------------------------------------------------


def test_an_idle_connection_is_closed_when_its_time_is_up() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].http_pool = HttpPoolSettings(pool_idle_timeout_secs=0.3)
        now = asyncio.get_running_loop().time
        client = await stage.client()
        await client.ask(post())
        idle_since = now()
        assert counts(stage) == (1, 0)
        await eventually(lambda: not stage.worker.open)
        assert 0.25 < now() - idle_since < 1.5  # the sweep looks every 0.25 s
        assert counts(stage) == (0, 0)
        assert (await client.ask(post())).status == 200
        assert stage.worker.accepted == 2
        assert stage.gateway.upstream.resends == 0
        client.close()

    play(scene)


def test_the_idle_timeout_comes_from_its_flag() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.ask(post())
        await eventually(lambda: not stage.worker.open)
        client.close()

    play(scene, upstream={"upstream_pool_idle_timeout_secs": 1})


def test_a_stream_that_says_nothing_is_not_idle() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await asyncio.sleep(1.0)  # beyond the idle timeout; the silence is the test
        await connection.chunk(b"data: 1\n\n")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        stage.records[0].http_pool = HttpPoolSettings(pool_idle_timeout_secs=0.3)
        client = await stage.client()
        answer = await client.ask(post(STREAM))
        assert (answer.body, answer.is_whole) == (b"data: 1\n\n", True)
        client.close()

    play(scene, script)


@pytest.mark.parametrize("end", ["close", "reset"])
def test_a_connection_its_worker_ended_while_idle_is_not_tried(end: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(OK)
        await eventually(lambda: is_idle)
        getattr(connection, end)()

    is_idle = False

    async def scene(stage: Stage) -> None:
        nonlocal is_idle
        client = await stage.client()
        assert (await client.ask(post())).body == OK
        is_idle = True
        await eventually(lambda: counts(stage) == (0, 0))
        assert (await client.ask(post())).body == OK
        assert len(stage.worker.received) == 2
        assert stage.gateway.upstream.resends == 0
        client.close()

    play(scene, script)


def test_a_worker_that_left_keeps_no_connection_behind_its_last_request() -> None:
    gate = Gate()

    async def scene(stage: Stage) -> None:
        record = stage.records[0]
        # No idle timeout that would hide it.
        record.http_pool = HttpPoolSettings(pool_idle_timeout_secs=0)
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: stage.worker.received)
        record.is_removed = True
        stage.gateway.upstream.forget(record)
        gate.is_open = True
        assert (await client.answer()).body == OK
        await eventually(lambda: not stage.worker.open)
        await eventually(lambda: not stage.gateway.upstream.counts())
        client.close()

    play(scene, gate.script)


# -- sent again, once ----------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "reset"])
@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
def test_a_connection_that_dies_on_reuse_costs_its_client_nothing(
    body: bytes, end: str
) -> None:
    used: set[Connection] = set()

    async def script(connection: Connection, request: Received) -> None:
        if connection in used:
            getattr(connection, end)()
        else:
            used.add(connection)
            await connection.answer(OK)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post(body))).body == OK
        answer = await client.ask(post(body))
        assert (answer.status, answer.body) == (200, OK)
        assert stage.gateway.upstream.resends == 1
        assert [request.body for request in stage.worker.received] == [body] * 3
        assert stage.worker.accepted == 2
        assert stage.records[0].backend_errors == 0
        client.close()

    play(scene, script)


def test_the_second_send_takes_no_idle_connection_either() -> None:
    """All of them may be as stale as the first."""
    is_open = False
    stale: set[Connection] = set()

    async def script(connection: Connection, request: Received) -> None:
        if connection in stale:
            connection.close()
            return
        await eventually(lambda: is_open)
        await connection.answer(OK)

    async def scene(stage: Stage) -> None:
        nonlocal is_open
        clients = [await stage.client() for _ in range(3)]
        for client in clients:
            await client.send(post())
        await eventually(lambda: len(stage.worker.received) == 3)
        is_open = True
        for client in clients:
            await client.answer()
        stale.update(stage.worker.open)
        assert (await clients[0].ask(post())).status == 200
        assert (stage.worker.accepted, len(stage.worker.received)) == (4, 5)
        for client in clients:
            client.close()

    play(scene, script)


def test_a_request_that_a_worker_answered_is_never_delivered_twice() -> None:
    """However the worker ends its connections: answers stay with their requests."""
    answered: list[bytes] = []

    async def script(connection: Connection, request: Received) -> None:
        turn = len(answered) % 4
        answered.append(request.body)
        await connection.answer(request.body)
        if turn == 1:
            connection.close()
        elif turn == 2:
            connection.reset()
        elif turn == 3:
            await connection.send(b"HTTP/1.1 200 OK\r\n")
            connection.close()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        bodies = [chat(seed=number) for number in range(60)]
        for body in bodies:
            answer = await client.ask(post(body))
            # A reset may destroy an answer on its way; never is it another's.
            assert answer.body == body or answer.status == 500
        for body in bodies:
            assert answered.count(body) == 1
        client.close()

    play(scene, script)


@pytest.mark.parametrize("part", [b"H", b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n"])
def test_one_byte_of_an_answer_on_a_reused_connection_forbids_a_second_send(
    part: bytes,
) -> None:
    used: set[Connection] = set()

    async def script(connection: Connection, request: Received) -> None:
        if connection in used:
            await connection.send(part)
            connection.close()
        else:
            used.add(connection)
            await connection.answer(OK)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(post())).status == 200
        answer = await client.ask(post())
        assert answer.get("x-smg-error-code") == "call_upstream_request_error"
        assert len(stage.worker.received) == 2
        assert stage.gateway.upstream.resends == 0
        client.close()

    play(scene, script)


# -- poisoned ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reply",
    [
        WHOLE + b"EXTRA",
        WHOLE + WHOLE.replace(b"ok", b"no"),
        WHOLE.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        WHOLE.replace(b"\r\n\r\n", b"\r\nConnection: x, Close\r\n\r\n"),
        WHOLE.replace(b"HTTP/1.1", b"HTTP/1.0"),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nX",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\ntransfer-encoding: chunked\r\n\r\n"
        b"2\r\nok\r\n0\r\n\r\n",
    ],
)
def test_a_connection_that_is_not_clean_is_never_used_again(reply: bytes) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(reply)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        for _ in range(3):
            assert (await client.ask(post())).body == b"ok"
            assert counts(stage) == (0, 0)
        assert stage.worker.accepted == 3
        await eventually(lambda: not stage.worker.open)
        client.close()

    play(scene, script)


@pytest.mark.parametrize(
    "unasked", [WHOLE.replace(b"ok", b"no"), b"x", b"HTTP/1.1 100 Continue\r\n\r\n"]
)
def test_bytes_sent_while_idle_are_nobodys_answer(unasked: bytes) -> None:
    is_idle = False

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(OK)
        if len(is_first) < 1:
            is_first.append(True)
            await eventually(lambda: is_idle)
            await connection.send(unasked)
            await connection.until_gone()

    is_first: list[bool] = []

    async def scene(stage: Stage) -> None:
        nonlocal is_idle
        client = await stage.client()
        assert (await client.ask(post())).body == OK
        is_idle = True
        await eventually(lambda: counts(stage) == (0, 0))
        assert (await client.ask(post())).body == OK
        assert stage.worker.accepted == 2
        client.close()

    play(scene, script)
