"""The client is gone: its worker is cut at once, and nothing is charged to it."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, Client, post
from tests.fakes.worker import Connection, Received

# The contract says 50 ms; a busy machine gets the benefit of the doubt here, the
# figure itself is measured by the load test.
SOON_SECS = 0.5
GONE = {(499, "client_closed_request"): 1}


def leave(client: Client, how: str) -> None:
    client.reset() if how == "reset" else client.finish()


@pytest.mark.parametrize("how", ["fin", "reset"])
@pytest.mark.parametrize("phase", ["before head", "before event", "mid stream"])
def test_a_worker_is_cut_when_its_client_leaves(how: str, phase: str) -> None:
    left_at = cut_at = 0.0
    is_waiting = False

    async def script(connection: Connection, request: Received) -> None:
        nonlocal cut_at, is_waiting
        if phase != "before head":
            await connection.start_stream()
        if phase == "mid stream":
            await connection.chunk(b"data: {}\n\n")
        is_waiting = True
        await connection.until_gone()
        cut_at = asyncio.get_running_loop().time()

    async def scene(stage: Stage) -> None:
        nonlocal left_at
        client = await stage.client()
        await client.send(post(STREAM))
        await eventually(lambda: is_waiting)
        if phase != "before head":
            await client.head()
        left_at = asyncio.get_running_loop().time()
        leave(client, how)
        await eventually(lambda: cut_at)
        assert cut_at - left_at < SOON_SECS
        await eventually(lambda: stage.responses() == GONE)
        assert stage.records[0].backend_errors == 0
        client.close()

    play(scene, script)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_buffered_request_is_given_up_with_its_client(how: str) -> None:
    is_cut = False

    async def script(connection: Connection, request: Received) -> None:
        nonlocal is_cut
        await connection.until_gone()
        is_cut = True

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: stage.worker.received)
        leave(client, how)
        await eventually(lambda: is_cut)
        await eventually(lambda: stage.responses() == GONE)
        client.close()

    play(scene, script)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_leaves_within_its_upload_reaches_no_worker(how: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post()[:-5])
        await eventually(lambda: stage.gateway.dispatcher.running)
        leave(client, how)
        await eventually(lambda: stage.responses() == GONE)
        assert stage.worker.received == []
        client.close()

    play(scene)


def test_a_client_that_leaves_while_its_connection_is_paused_is_noticed() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: stage.worker.received)
        client.writer.write(b"x" * 150_000)  # pauses reading; the rest fits the kernel
        client.finish()
        await eventually(lambda: not stage.gateway.dispatcher.running)
        client.reset()

    play(scene, script)


def test_an_exchange_cancelled_before_its_first_step_leaves_nothing() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(50):
            client = await stage.client()
            client.writer.write(post())
            client.reset()
        await eventually(lambda: stage.gateway.listener.open_connections == 0)

    play(scene)
