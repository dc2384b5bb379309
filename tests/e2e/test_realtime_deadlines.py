"""Sides of a realtime session that do not answer, do not read or do not leave."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.websocket import (
    BINARY,
    CLOSE,
    RealtimeWorker,
    SocketClient,
    accept,
)
from tests.fakes.worker import Connection, Received


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is patience in earnest is a moment here."""
    monkeypatch.setattr("smgproxy.downstream.websocket.LINGER_SECS", 0.1)
    monkeypatch.setattr("smgproxy.upstream.websocket.LINGER_SECS", 0.1)
    monkeypatch.setattr("smgproxy.dispatch.realtime_session.CLOSE_SECS", 0.1)


@pytest.mark.parametrize("closer", ["client", "worker"])
def test_a_close_without_an_answer_is_answered_by_the_gateway(closer: str) -> None:
    ends: list[bytes] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        if closer == "worker":
            await peer.close(4001, "enough")
            got = await peer.read()
            assert (got.code, got.reason) == (4001, "enough")
        else:
            assert (await peer.read()).code == 4000
        ends.append(await peer.at_end())
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        if closer == "client":
            await client.close(4000, "bye")
        got = await client.read()
        expected = (4000, "bye") if closer == "client" else (4001, "enough")
        assert (got.opcode, got.code, got.reason) == (CLOSE, *expected)
        assert await client.at_end() == b""
        await eventually(lambda: ends)
        assert ends == [b""]
        stats = stage.gateway.realtime.stats
        assert stats.closes == {(closer, str(expected[0])): 1}
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_sides_that_do_not_leave_when_all_is_said_are_cut_off() -> None:
    over = asyncio.Event()

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        await peer.close(1000, "done")
        await peer.read()
        await over.wait()  # and closes nothing meanwhile
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.send(CLOSE, (await client.read()).payload)
        assert await client.at_end() == b""
        gateway = stage.gateway
        await eventually(lambda: gateway.listener.open_connections == 0)
        await eventually(lambda: len(gateway.realtime.sockets) == 0)
        over.set()
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_client_that_reads_nothing_is_cut_off_after_its_timeout() -> None:
    lost: list[str] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        try:
            while True:
                await peer.send(BINARY, b"*" * 65536)
        except ConnectionError:
            lost.append("the gateway")
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port, receive_buffer=16384)
        await eventually(lambda: lost, 8)
        assert stage.gateway.realtime.stats.closes == {("client", "1006"): 1}
        client.client.close()

    limits = {"client_send_timeout_secs": 1}
    play(scene, script, kind=RealtimeWorker, clients=limits)


def test_a_client_that_leaves_while_it_is_held_is_missed() -> None:
    over = asyncio.Event()

    async def script(connection: Connection, request: Received) -> None:
        await accept(connection, request)
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await over.wait()
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        try:
            async with asyncio.timeout(1):
                while True:
                    await client.send(BINARY, b"*" * 65536)
        except TimeoutError:
            pass  # the gateway reads no more of it
        client.client.reset()
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert stage.gateway.realtime.stats.closes == {("client", "1006"): 1}
        over.set()

    play(scene, script, kind=RealtimeWorker)
