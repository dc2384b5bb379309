"""Clients and workers of realtime sessions that die at random moments."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.websocket import (
    BINARY,
    CLOSE,
    TEXT,
    RealtimeWorker,
    SocketClient,
    accept,
    frame,
    upgrade,
)
from tests.fakes.worker import Connection, Received


async def _chatter(connection: Connection, request: Received) -> None:
    """A worker that talks, listens, and dies when told to, or by chance."""
    rng = random.Random(int(request.get("x-smg-routing-key") or "0"))
    await asyncio.sleep(rng.choice((0, 0, 0.001)))
    if rng.random() < 0.1:
        connection.reset()
        return
    peer = await accept(connection, request, early=frame(TEXT, b"hello"))
    try:
        for _ in range(rng.randrange(12)):
            if rng.random() < 0.5:
                await peer.send(BINARY, b"*" * rng.choice((0, 10, 300, 70000)))
            else:
                got = await asyncio.wait_for(peer.read(), 0.01)
                if got.opcode == CLOSE:
                    await peer.send(CLOSE, got.payload)
                    break
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        pass
    deed = rng.randrange(4)
    if deed == 0:
        connection.reset()
        return
    with contextlib.suppress(ConnectionError):
        if deed == 1:
            await peer.close(1000)
            await connection.until_gone()
        elif deed == 2:
            await peer.send_raw(rng.randbytes(rng.randrange(40)))
    connection.close()


async def _visit(stage: Stage, seed: int) -> None:
    rng = random.Random(seed)
    key = f"X-SMG-Routing-Key: {seed}\r\n"
    if rng.random() < 0.1:  # it does not wait for its 101
        hasty = await stage.client()
        await hasty.send(upgrade(headers=key))
        await asyncio.sleep(rng.choice((0, 0, 0.001, 0.002)))
        hasty.reset() if rng.random() < 0.5 else hasty.close()
        return
    try:
        client = await SocketClient.open(stage.port, headers=key)
    except (AssertionError, asyncio.IncompleteReadError, ConnectionError):
        return  # the worker died first: an ordinary error
    try:
        for _ in range(rng.randrange(12)):
            if rng.random() < 0.6:
                await client.send(BINARY, b"*" * rng.choice((0, 10, 300, 70000)))
            else:
                await asyncio.wait_for(client.read(), 0.01)
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        pass
    deed = rng.randrange(4)
    if deed == 0:
        client.client.reset()
        return
    if deed == 1:
        try:
            await client.close(rng.choice((1000, 4000, None)))
            await asyncio.wait_for(client.at_end(), 8)
        except ConnectionError:
            pass
    elif deed == 2 and not client.client.writer.is_closing():
        client.client.writer.write(rng.randbytes(rng.randrange(40)))
    client.client.close()


@pytest.mark.parametrize("start", range(4))
def test_either_side_killed_at_any_moment_leaves_nothing(start: int) -> None:
    async def scene(stage: Stage) -> None:
        gate = asyncio.Semaphore(32)

        async def one(seed: int) -> None:
            async with gate:
                await _visit(stage, seed)

        await asyncio.gather(*[one(start * 1000 + n) for n in range(1000)])
        await eventually(lambda: not stage.gateway.dispatcher.running, 10)
        stats = stage.gateway.realtime.stats
        assert sum(stats.closes.values()) == stats.opened > 600
        await eventually(lambda: stage.gateway.listener.open_connections == 0)

    limits = {"max_concurrent_requests": 64}
    play(scene, _chatter, kind=RealtimeWorker, limiter=limits)
