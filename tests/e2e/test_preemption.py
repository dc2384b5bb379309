"""Preemption over sockets: who makes way, what he is told, and who runs on."""

from __future__ import annotations

import pytest

from tests.e2e.admitting import (
    PROTOCOLS,
    Waiting,
    ask,
    call,
    check_shed,
    classes,
    depth_is,
    finish,
    scheduler,
    slots,
)
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import EVENTS, SSE_HEAD
from tests.fakes.client import CHAT, STREAM, Answer
from tests.fakes.worker import Connection, Received

PREEMPTED = (
    *(503, "scheduler_preempted", "request preempted by higher-priority traffic"),
    "1",
)
STREAM_HEAD = SSE_HEAD + b"transfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def check_preempted(answer: Answer) -> None:
    check_shed(answer, *PREEMPTED)
    assert answer.get("x-smg-preempted") == "true"


@pytest.mark.parametrize("body", [CHAT, STREAM])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_waits_for_its_worker_is_preempted(
    protocol: str, body: bytes
) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        low = await call(stage, protocol, body, x_smg_priority="bulk")
        await worker.has(1)
        high = await call(stage, protocol, x_smg_priority="interactive")
        check_preempted(await low.answer())
        low.close()
        await eventually(lambda: worker.cut == 1)
        await worker.has(2)
        assert scheduler(stage).in_flight == 1
        await finish(worker, high)
        # Nobody's fault: nothing is charged to the worker, nothing tried again.
        [record] = stage.records
        assert (record.backend_errors, record.timeouts) == (0, 0)
        assert len(worker.bodies) == 2 and worker.most == 1
        assert stage.responses() == {(503, "scheduler_preempted"): 1, (200, ""): 1}
        assert scheduler(stage).stats.late_handovers == 0

    play(scene, worker.script, scheduler=classes())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_whose_worker_has_sent_its_head_is_preempted_whole(
    protocol: str,
) -> None:

    async def script(connection: Connection, request: Received) -> None:
        if b"stream" in request.body:
            await connection.send(STREAM_HEAD)
            await connection.until_gone()
        else:
            await connection.answer(b"{}")

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        low = await call(stage, protocol, STREAM, x_smg_priority="bulk")
        await eventually(lambda: len(stage.gateway.keepalives) == 1)
        high = await ask(stage, protocol, x_smg_priority="interactive")
        assert high.status == 200
        check_preempted(await low.answer())
        low.close()

    play(scene, script, scheduler=classes())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_has_sent_a_byte_runs_on(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        low = await call(stage, protocol, STREAM, x_smg_priority="bulk")
        await worker.has(1)
        worker.go(STREAM_HEAD + chunk(EVENTS[0]))
        await eventually(
            lambda: any(e.phase == 3 for e in stage.gateway.dispatcher.running)
        )
        high = await call(stage, protocol, x_smg_priority="system")
        await depth_is(stage, 1)
        for one in list(stage.worker.open):
            await one.send(chunk(EVENTS[-1]) + LAST_CHUNK)
        answer = await low.answer()
        assert answer.is_whole and answer.body == EVENTS[0] + EVENTS[-1]
        low.close()
        await finish(worker, high)
        assert scheduler(stage).stats.preemptions == {}

    play(scene, worker.script, scheduler=classes())


def test_a_keep_alive_comment_is_a_first_byte() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(STREAM_HEAD)
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        client = await stage.client()
        one = await call(stage, body=STREAM, x_smg_priority="bulk")
        await eventually(
            lambda: any(e.phase == 3 for e in stage.gateway.dispatcher.running)
        )
        high = await call(stage, x_smg_priority="system")
        await depth_is(stage, 1)
        assert scheduler(stage).stats.preemptions == {}
        one.leave()
        high.leave()
        client.close()

    play(scene, script, scheduler=classes(), dispatch={"sse_keepalive_secs": 1})


@pytest.mark.parametrize("streams_up", [False, True])
def test_a_request_is_preempted_in_its_upload(streams_up: bool) -> None:
    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        client = await stage.client()
        request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-SMG-Priority: bulk\r\n"
            b"Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
        )
        await client.send(request + b"x" * 1000)
        await eventually(lambda: scheduler(stage).in_flight == 1)
        if streams_up:
            await eventually(lambda: stage.records[0].load)
        assert (await ask(stage, x_smg_priority="system")).status == 200
        check_preempted(await client.answer())
        client.close()
        assert stage.records[0].backend_errors == 0

    play(scene, scheduler=classes(), retries={"disable_retries": streams_up})


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_breaks_before_its_first_byte_is_an_ordinary_error(
    protocol: str,
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(STREAM_HEAD)
        connection.reset()

    async def scene(stage: Stage) -> None:
        answer = await ask(stage, protocol, body=STREAM)
        assert answer.status == 500
        assert error_of(answer)["code"] == "call_upstream_request_error"
        assert stage.records[0].backend_errors == 1

    play(scene, script, scheduler=classes())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_streams_read_as_without_a_scheduler(protocol: str) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        for event in EVENTS:
            await connection.chunk(event)
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        answer = await ask(stage, protocol, body=STREAM)
        assert answer.is_whole and answer.body == b"".join(EVENTS)
        assert answer.get("content-type") == "text/event-stream"

    play(scene, script, scheduler=classes())


def test_a_stream_without_a_byte_ends_with_its_head() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(STREAM_HEAD + LAST_CHUNK)

    async def scene(stage: Stage) -> None:
        answer = await ask(stage, body=STREAM)
        assert (answer.status, answer.body, answer.is_whole) == (200, b"", True)

    play(scene, script, scheduler=classes())


def test_a_held_stream_is_told_when_the_gateway_stops() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(STREAM_HEAD)
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        one = await call(stage, body=STREAM)
        await eventually(lambda: len(stage.gateway.keepalives) == 1)
        stage.gateway.stop()
        answer = await one.answer()
        assert answer.status == 503
        assert error_of(answer)["code"] == "gateway_shutting_down"
        one.close()

    play(scene, script, scheduler=classes())
