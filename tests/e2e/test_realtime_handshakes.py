"""What client and worker agree on as a session opens, and which key opens it."""

from __future__ import annotations

from smgproxy.admission.keys import Keys, Secret, TenantKey
from tests.e2e.stage import Stage, play
from tests.fakes.websocket import (
    CLOSE,
    TEXT,
    RealtimeWorker,
    SocketClient,
    accept,
    echo,
    upgrade,
)
from tests.fakes.worker import Connection, Received


def test_a_subprotocol_is_chosen_by_the_worker() -> None:
    async def script(connection: Connection, request: Received) -> None:
        assert request.get("sec-websocket-protocol") == "one, two"
        await _accept_and_echo_close(
            connection, request, "Sec-WebSocket-Protocol: two\r\n"
        )

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(
            stage.port, headers="Sec-WebSocket-Protocol: one, two\r\n"
        )
        assert client.answer.get("sec-websocket-protocol") == "two"
        await client.leave()

    play(scene, script, kind=RealtimeWorker)


async def _accept_and_echo_close(
    connection: Connection, request: Received, headers: str = ""
) -> None:
    peer = await accept(connection, request, headers)
    await peer.send(CLOSE, (await peer.read()).payload)
    connection.close()


_BROWSER = "Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.sk-gw, beta\r\n"


def test_a_browsers_key_opens_the_gateway_and_stays_in_it() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port, headers=_BROWSER)
        assert client.answer.get("sec-websocket-protocol") == "realtime"
        got = stage.worker.received[0]
        assert got.get("sec-websocket-protocol") == "realtime, beta"
        assert b"sk-gw" not in got.raw_head
        await client.leave()

    keys = Keys(shared=[Secret("sk-gw")])
    play(scene, _accept_and_echo_close, kind=RealtimeWorker, keys=keys)


def test_a_browsers_key_for_the_worker_goes_on_as_authorization() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port, headers=_BROWSER)
        got = stage.worker.received[0]
        assert got.get("authorization") == "Bearer sk-gw"
        assert got.get("sec-websocket-protocol") == "realtime, beta"
        await client.leave()

    play(scene, _accept_and_echo_close, kind=RealtimeWorker)


def test_a_wrong_browser_key_is_401() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(upgrade(headers=_BROWSER))
        assert (answer.status, answer.body) == (401, b"")
        assert stage.worker.received == []
        client.close()

    keys = Keys(tenants=[TenantKey("t", Secret("other"))])
    play(scene, echo, kind=RealtimeWorker, keys=keys)


def test_a_workers_own_key_takes_the_place_of_a_gateway_key() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].api_key = "worker-key"
        client = await SocketClient.open(
            stage.port, headers="Authorization: Bearer sk-gw\r\n"
        )
        got = stage.worker.received[0]
        assert got.get("authorization") == "Bearer worker-key"
        await client.leave()

    keys = Keys(shared=[Secret("sk-gw")])
    play(scene, echo, kind=RealtimeWorker, keys=keys)


_DEFLATE = "permessage-deflate; client_max_window_bits"


def test_compression_is_agreed_end_to_end() -> None:
    async def script(connection: Connection, request: Received) -> None:
        assert request.get("sec-websocket-extensions") == _DEFLATE
        peer = await accept(
            connection, request, "Sec-WebSocket-Extensions: permessage-deflate\r\n"
        )
        got = await peer.read()
        await peer.send(TEXT, got.payload, reserved=got.reserved)
        await peer.send(CLOSE, (await peer.read()).payload)
        connection.close()

    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(
            stage.port, headers=f"Sec-WebSocket-Extensions: x-foo, {_DEFLATE}\r\n"
        )
        assert client.answer.get("sec-websocket-extensions") == "permessage-deflate"
        packed = b"\xf2\x48\xcd\xc9\xc9\x07\x00"
        await client.send(TEXT, packed, reserved=4)
        got = await client.read()
        assert (got.payload, got.reserved) == (packed, 4)
        await client.leave()

    play(scene, script, kind=RealtimeWorker)


def test_compression_that_the_worker_declines_is_not_agreed() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(
            stage.port, headers=f"Sec-WebSocket-Extensions: {_DEFLATE}\r\n"
        )
        assert client.answer.get("sec-websocket-extensions") is None
        await client.send(TEXT, b"x", reserved=4)
        assert (await client.read()).code == 1002
        client.client.close()

    play(scene, echo, kind=RealtimeWorker)
