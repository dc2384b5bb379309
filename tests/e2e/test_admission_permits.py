"""How long a permit is held, and what becomes of waiters at the end."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.admitting import (
    Waiting,
    ask,
    call,
    check_shed,
    depth_is,
    limiter,
    limits_of,
)
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import EVENTS, SSE_HEAD
from tests.fakes.client import CHAT, STREAM, post
from tests.fakes.worker import Connection, Received

# -- how long a permit is held -------------------------------------------------------


async def held_and_free(stage: Stage) -> None:
    """The only permit is free again: a plain request gets it at once."""
    await eventually(lambda: limiter(stage).in_flight == 0)


def test_a_stream_holds_its_permit_to_its_last_byte() -> None:
    ends: list[asyncio.Future[None]] = []

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        ends.append(asyncio.get_running_loop().create_future())
        await ends[-1]
        await connection.chunk(EVENTS[-1])
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post(STREAM))
        assert (await client.head()).status == 200
        assert await client.chunk() == EVENTS[0]
        assert limiter(stage).in_flight == 1
        check_shed(
            await ask(stage),
            *(429, "admission_queue_full"),
            "concurrency limit reached and queuing is disabled",
        )
        ends[0].set_result(None)
        assert await client.chunk() == EVENTS[-1]
        assert await client.chunk() == b""
        await held_and_free(stage)
        client.close()

    play(scene, script, limiter=limits_of(1, 0))


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",
        b"nonsense\r\n\r\n",
        SSE_HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nda",
        b"",
    ],
)
@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_a_worker_that_fails_gives_the_permit_back(reply: bytes, body: bytes) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(reply)
        connection.reset()

    async def scene(stage: Stage) -> None:
        for _ in range(3):  # with one permit, and no queue
            await ask(stage, body=body)
            await held_and_free(stage)

    play(scene, script, limiter=limits_of(1, 0))


def test_a_client_that_leaves_mid_stream_gives_the_permit_back() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post(STREAM))
        await client.head()
        await client.chunk()
        client.reset()
        await held_and_free(stage)

    play(scene, script, limiter=limits_of(1, 0))


def test_a_request_that_is_no_json_gives_the_permit_back() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(3):
            assert (await ask(stage, body=b"{")).status == 400

    play(scene, limiter=limits_of(1, 0))


def test_no_worker_gives_the_permit_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.remove(stage.records[0])
        for _ in range(3):
            assert (await ask(stage)).status in (404, 503)

    play(scene, limiter=limits_of(1, 0))


# -- the end -------------------------------------------------------------------------


def test_waiters_are_served_while_the_gateway_drains() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one, other = await call(stage), await call(stage)
        await depth_is(stage, 1)
        stage.gateway.stop()
        await eventually(lambda: stage.gateway.listener.is_draining)
        worker.go()
        assert (await one.answer()).status == 200
        await worker.has(2)
        worker.go()
        assert (await other.answer()).status == 200
        one.close()
        other.close()

    play(scene, worker.script, limiter=limits_of(1, 5))


def test_waiters_are_told_when_the_grace_period_is_over() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one, other = await call(stage), await call(stage)
        await depth_is(stage, 1)
        stage.gateway.stop()
        for each in (one, other):
            answer = await each.answer()
            assert answer.status == 503
            assert error_of(answer)["code"] == "gateway_shutting_down"
            each.close()
        await eventually(lambda: worker.cut == 1)
        assert len(worker.bodies) == 1

    play(scene, worker.script, limiter=limits_of(1, 5))
