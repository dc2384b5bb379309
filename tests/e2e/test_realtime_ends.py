"""How realtime sessions end: closed, lost, broken, too old, or shut down with us."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from smgproxy.core.clock import monotonic
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.websocket import (
    BINARY,
    CLOSE,
    TEXT,
    Frame,
    RealtimeWorker,
    SocketClient,
    accept,
    close_payload,
    echo,
    frame,
    upgrade,
)
from tests.fakes.worker import Connection, Received


def _hearing(seen: list[Frame | None]) -> Callable[..., Awaitable[None]]:
    """A worker that notes what it is sent, None at the end, and answers no Close."""

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        try:
            while True:
                seen.append(await peer.read())
        except (asyncio.IncompleteReadError, ConnectionError):
            seen.append(None)
        connection.close()

    return script


CLOSES = [(None, ""), (1000, ""), (1001, "tab"), (3000, "ä"), (4999, "x" * 123)]


@pytest.mark.parametrize("code, reason", CLOSES)
def test_a_clients_close_reaches_the_worker_and_its_answer_the_client(
    code: int | None, reason: str
) -> None:
    seen: list[Frame] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        seen.append(await peer.read())
        await peer.close(4321, "as the worker says")
        assert await peer.at_end() == b""
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.close(code, reason)
        got = await client.read()
        assert (got.code, got.reason) == (4321, "as the worker says")
        assert await client.at_end() == b""
        assert seen[0].payload == (b"" if code is None else close_payload(code, reason))
        stats = stage.gateway.realtime.stats
        assert stats.closes == {("client", str(code or 1005)): 1}
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


@pytest.mark.parametrize("code, reason", CLOSES)
def test_a_workers_close_reaches_the_client_and_its_answer_the_worker(
    code: int | None, reason: str
) -> None:
    answered: list[Frame] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        await peer.close(code, reason)
        answered.append(await peer.read())
        assert await peer.at_end() == b""
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        got = await client.read()
        assert got.payload == (b"" if code is None else close_payload(code, reason))
        await client.send(CLOSE, got.payload)
        assert await client.at_end() == b""
        await eventually(lambda: answered)
        assert answered[0].payload == got.payload
        stats = stage.gateway.realtime.stats
        assert stats.closes == {("worker", str(code or 1005)): 1}
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_client_whose_worker_does_not_answer_its_close_gets_it_back() -> None:
    seen: list[Frame | None] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        seen.append(await peer.read())
        connection.close()  # without a Close

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.close(1000, "bye")
        got = await client.read()
        assert (got.opcode, got.code, got.reason) == (CLOSE, 1000, "bye")
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_worker_that_is_lost_is_a_1011_at_once(how: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        await peer.read()
        connection.close() if how == "fin" else connection.reset()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        began = monotonic()
        await client.text("die")
        got = await client.read()
        assert monotonic() - began < 1.0
        assert (got.code, got.reason) == (1011, "the connection to the worker is lost")
        assert await client.at_end() == b""
        assert stage.gateway.realtime.stats.closes == {("worker", "1006"): 1}
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_what_a_worker_said_before_it_was_lost_comes_first() -> None:
    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        await peer.text("last words")
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        assert (await client.read()).payload == b"last words"
        assert (await client.read()).code == 1011
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_client_is_cut_off_within_a_frame_that_its_worker_did_not_finish() -> None:
    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        await peer.send_raw(frame(BINARY, b"*" * 5000)[:1000])
        await asyncio.sleep(0.05)
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        rest = await client.at_end()
        assert rest == frame(BINARY, b"*" * 5000)[:1000]
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert stage.responses("/v1/realtime") == {(101, "stream_error"): 1}
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


@pytest.mark.parametrize(
    "rubbish, code, reason",
    [
        (frame(TEXT, b"x", mask=b"abcd"), 1002, "frame is masked"),
        (frame(3, b"x"), 1002, "unknown opcode"),
        (frame(TEXT, b"x", reserved=4), 1002, "reserved bits are set"),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007, "close reason is not UTF-8"),
        (frame(CLOSE, close_payload(1006)), 1002, "invalid close code"),
    ],
)
def test_a_worker_that_breaks_the_protocol_is_told_and_its_client_gets_1011(
    rubbish: bytes, code: int, reason: str
) -> None:
    seen: list[Frame] = []

    async def script(connection: Connection, request: Received) -> None:
        peer = await accept(connection, request)
        await peer.send_raw(frame(TEXT, b"good") + rubbish)
        seen.append(await peer.read())
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        assert (await client.read()).payload == b"good"
        got = await client.read()
        assert got.code == 1011
        assert got.reason == f"the worker broke the protocol: {reason}"
        await eventually(lambda: seen)
        assert seen[0].code == code and seen[0].is_masked
        client.client.close()

    play(scene, script, kind=RealtimeWorker)


@pytest.mark.parametrize(
    "rubbish, code",
    [
        (frame(TEXT, b"x"), 1002),
        (frame(TEXT, b"x", reserved=1, mask=b"abcd"), 1002),
        (frame(11, b"x", mask=b"abcd"), 1002),
        (frame(9, b"*" * 126, mask=b"abcd"), 1002),
        (frame(9, b"x", final=False, mask=b"abcd"), 1002),
        (frame(0, b"x", mask=b"abcd"), 1002),
        (frame(CLOSE, b"x", mask=b"abcd"), 1002),
        (frame(CLOSE, b"\x03\xe8\xff", mask=b"abcd"), 1007),
    ],
)
def test_a_client_that_breaks_the_protocol_is_told_and_nothing_of_it_passes(
    rubbish: bytes, code: int
) -> None:
    seen: list[Frame | None] = []

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.send_raw(frame(TEXT, b"good", mask=b"abcd") + rubbish)
        got = await client.read()
        assert (got.opcode, got.code) == (CLOSE, code)
        assert await client.at_end() == b""
        await eventually(lambda: None in seen)
        good, close, end = seen
        assert good is not None and good.payload == b"good"
        assert close is not None and (close.opcode, close.code) == (CLOSE, 1001)
        assert end is None
        client.client.close()

    play(scene, _hearing(seen), kind=RealtimeWorker)


@pytest.mark.parametrize("how", ["fin", "reset"])
def test_a_client_that_is_lost_is_an_end_without_a_close(how: str) -> None:
    seen: list[Frame | None] = []

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.text("one")
        await eventually(lambda: seen)
        client.client.close() if how == "fin" else client.client.reset()
        await eventually(lambda: len(seen) == 2)
        assert seen[1] is None
        expected = {(499, "client_closed_request"): 1}
        await eventually(lambda: stage.responses("/v1/realtime") == expected)
        assert stage.gateway.realtime.stats.closes == {("client", "1006"): 1}

    play(scene, _hearing(seen), kind=RealtimeWorker)


def test_a_client_that_leaves_behind_its_close_has_closed() -> None:
    seen: list[Frame | None] = []

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        await client.close(1001)
        client.client.close()
        await eventually(lambda: None in seen)
        assert seen[0] is not None and seen[0].code == 1001
        await eventually(lambda: stage.responses("/v1/realtime") == {(101, ""): 1})

    play(scene, _hearing(seen), kind=RealtimeWorker)


def test_a_client_that_leaves_before_its_101_costs_the_worker_nothing() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(upgrade())
        await eventually(lambda: stage.worker.received)
        client.reset()
        await eventually(lambda: not stage.worker.open)

    play(scene, script, kind=RealtimeWorker)


# -- limits and the end of the gateway -----------------------------------------------


@pytest.mark.parametrize(
    "limits, reason",
    [
        ({"realtime_idle_timeout_secs": 1}, "idle for 1 seconds"),
        ({"realtime_max_session_secs": 1}, "the session has lasted 1 seconds"),
    ],
)
def test_a_session_that_is_idle_or_too_long_is_closed_on_both_sides(
    limits: dict[str, int], reason: str
) -> None:
    seen: list[Frame | None] = []

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        got = await client.read()
        assert (got.code, got.reason) == (1001, reason)
        await eventually(lambda: None in seen)
        assert seen[0] is not None and (seen[0].code, seen[0].reason) == (1001, reason)
        assert stage.gateway.realtime.stats.closes == {("gateway", "1001"): 1}
        client.client.close()

    play(scene, _hearing(seen), kind=RealtimeWorker, realtime=limits)


def test_a_session_that_talks_is_not_idle() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        for _ in range(8):
            await asyncio.sleep(0.25)
            await client.text("x")
            assert (await client.read()).payload == b"x"
        await client.close(1000)
        assert (await client.read()).code == 1000
        client.client.close()

    limits = {"realtime_idle_timeout_secs": 1}
    play(scene, echo, kind=RealtimeWorker, realtime=limits)


def test_sessions_are_told_at_the_end_of_the_grace_period_and_none_begins() -> None:
    seen: list[Frame | None] = []

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port)
        other = await stage.client()
        await other.send(b"GET /health HTTP/1.1\r\nHost: g\r\n\r\n")
        assert (await other.answer()).status == 200
        stage.gateway.stop()
        answer = await other.ask(upgrade())
        assert answer.status == 503
        assert answer.get("x-smg-error-code") == "gateway_shutting_down"
        began = monotonic()
        got = await client.read()
        assert monotonic() - began > 1.0
        assert (got.code, got.reason) == (1001, "the gateway is shutting down")
        await eventually(lambda: None in seen)
        assert seen[0] is not None and seen[0].code == 1001
        other.close()
        client.client.close()

    play(scene, _hearing(seen), kind=RealtimeWorker)
