"""What realtime sessions have in common with requests towards their worker."""

from __future__ import annotations

import pytest

from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.stage import Stage, play
from tests.fakes.certificates import Authority
from tests.fakes.client import post
from tests.fakes.websocket import RealtimeWorker, SocketClient, accept, echo, upgrade
from tests.fakes.worker import Connection, Received, Script

_SESSION = post(b'{"type":"realtime","model":"m"}', "/v1/realtime/sessions")


async def _close(connection: Connection, request: Received) -> None:
    connection.close()


async def _answer_500(connection: Connection, request: Received) -> None:
    await connection.answer(b"no", 500)


async def _answer_without_a_key(connection: Connection, request: Received) -> None:
    await connection.send(
        b"HTTP/1.1 101 Switching Protocols\r\n"
        b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    )
    await connection.until_gone()


@pytest.mark.parametrize(
    "request_bytes, script",
    [
        (upgrade(), _close),
        (upgrade(), _answer_500),
        (upgrade(), _answer_without_a_key),
        (_SESSION, _close),
        (_SESSION, _answer_500),
    ],
)
def test_each_failure_is_one_mark_against_the_worker(
    request_bytes: bytes, script: Script
) -> None:
    async def scene(stage: Stage) -> None:
        breaker = stage.records[0].breaker
        client = await stage.client()
        for failures in (1, 2):
            assert (await client.ask(request_bytes)).status >= 500
            assert breaker.failures == failures
        answer = await client.ask(request_bytes)
        assert answer.get("x-smg-error-code") == "no_available_workers"
        client.close()

    limits = {"cb_failure_threshold": 2}
    play(scene, script, kind=RealtimeWorker, breaker=limits)


def test_a_session_that_opens_is_a_success() -> None:
    async def scene(stage: Stage) -> None:
        socket = await SocketClient.open(stage.port)
        assert stage.records[0].breaker.successes == 1
        await socket.leave()

    play(scene, echo, kind=RealtimeWorker)


def test_a_worker_that_prefers_http2_is_asked_over_http11(authority: Authority) -> None:
    chosen: list[str | None] = []

    async def script(connection: Connection, request: Received) -> None:
        tls = connection.writer.get_extra_info("ssl_object")
        chosen.append(tls.selected_alpn_protocol())
        peer = await accept(connection, request)
        await peer.close(1000)

    async def scene(stage: Stage) -> None:
        fake = RealtimeWorker(script)
        fake.model = "secure"
        fake.tls = authority.issue("worker").serving()
        fake.tls.set_alpn_protocols(["h2", "http/1.1"])
        await fake.start()
        stage.register(fake, HttpPoolSettings(prefers_http2=True))
        socket = await SocketClient.open(stage.port, "?model=secure")
        await socket.leave()
        await fake.stop()
        assert chosen == ["http/1.1"]

    play(scene, tls={"ca_cert_paths": (authority.path,)})
