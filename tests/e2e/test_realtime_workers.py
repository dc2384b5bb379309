"""What realtime sessions share with other requests: breaker, TLS, preemption."""

from __future__ import annotations

import pytest

from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.admitting import call, classes, depth_is, scheduler
from tests.e2e.stage import Stage, eventually, play
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


def test_a_session_of_an_alias_is_one_of_the_model_it_stands_for() -> None:
    async def scene(stage: Stage) -> None:
        client = await SocketClient.open(stage.port, "?model=a%20name")
        [received] = stage.worker.received
        assert received.path == "/v1/realtime?model=m"
        await client.leave()

    aliases = {"model_aliases": ("a name=m",)}
    play(scene, echo, kind=RealtimeWorker, aliases=aliases)


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


_BULK = "x-smg-priority: bulk\r\n"


def _one_slot(stage: Stage) -> None:
    [record] = stage.records
    record.labels = {"realtime": "true", "max_running_requests": "1"}
    stage.gateway.registry.changed()
    assert scheduler(stage).capacity == 1


def test_a_session_that_waits_for_its_worker_is_preempted() -> None:
    async def script(connection: Connection, request: Received) -> None:
        if request.method == "GET":
            await connection.until_gone()
        else:
            await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        _one_slot(stage)
        client = await stage.client()
        await client.send(upgrade(headers=_BULK))
        await eventually(lambda: len(stage.worker.received) == 1)
        high = await call(stage, x_smg_priority="interactive")
        answer = await client.answer()
        assert answer.status == 503
        assert answer.get("x-smg-error-code") == "scheduler_preempted"
        assert (await high.answer()).status == 200
        assert stage.records[0].breaker.failures == 0
        assert stage.records[0].load == 0
        high.close()
        client.close()

    play(scene, script, kind=RealtimeWorker, scheduler=classes())


def test_a_session_that_is_open_is_waited_for() -> None:
    async def script(connection: Connection, request: Received) -> None:
        if request.method == "GET":
            await echo(connection, request)
        else:
            await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        _one_slot(stage)
        socket = await SocketClient.open(stage.port, headers=_BULK)
        high = await call(stage, x_smg_priority="interactive")
        await depth_is(stage, 1)
        await socket.leave()
        assert (await high.answer()).status == 200
        assert scheduler(stage).stats.preemptions == {}
        high.close()

    play(scene, script, kind=RealtimeWorker, scheduler=classes())
