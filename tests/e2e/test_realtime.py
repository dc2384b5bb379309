"""GET /v1/realtime: sessions between a client and a worker, over real sockets."""

from __future__ import annotations

import asyncio

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.websocket import (
    ACCEPT,
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
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
        await client.close(1000, "bye")
        got = await client.read()
        assert (got.opcode, got.code, got.reason) == (CLOSE, 1000, "bye")
        assert await client.at_end() == b""
        client.client.close()

    play(scene, echo, kind=RealtimeWorker)
