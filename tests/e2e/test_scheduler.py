"""The priority scheduler over sockets: classes, preemption, capacity of the fleet."""

from __future__ import annotations

from typing import Any

import pytest
import ujson

from smgproxy.admission.classes import RANKS, SchedulerConfig
from smgproxy.admission.limiter import Limiter
from smgproxy.fleet.worker import WorkerState
from tests.admission.asking import limits
from tests.e2e.admitting import (
    PROTOCOLS,
    Call,
    Waiting,
    ask,
    call,
    check_shed,
    depth_is,
    scheduler,
)
from tests.e2e.asking import error_of, get
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


def classes(**changes: Any) -> dict[str, Any]:
    """A scheduler whose two upper classes preempt and whose queues are short."""
    low, high = limits(queue_size=2, **changes), limits(queue_size=2, can_preempt=True)
    config = SchedulerConfig((low, low, high, high), {"auth:low": RANKS["bulk"]})
    return {
        "priority_scheduler_enabled": True,
        "priority_scheduler_config": config,
        "priority_scheduler_default_max_class": "system",
    }


def slots(stage: Stage, count: int) -> None:
    """The worker says how many requests it runs at once."""
    [record] = stage.records
    record.labels = {"max_running_requests": str(count)}
    stage.gateway.registry.changed()
    assert scheduler(stage).capacity == count


def check_preempted(answer: Answer) -> None:
    check_shed(answer, *PREEMPTED)
    assert answer.get("x-smg-preempted") == "true"


async def finish(worker: Waiting, *calls: Call) -> None:
    """Answer them one after the other."""
    for one in calls:
        await eventually(lambda: worker.running)
        worker.go()
        assert (await one.answer()).status == 200
        one.close()


# -- sheds -------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_full_class_is_429(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        calls = [await call(stage, protocol) for _ in range(3)]
        await depth_is(stage, 2)
        check_shed(
            await ask(stage, protocol),
            *(429, "scheduler_queue_full"),
            "request queue is full for this priority class",
        )
        await finish(worker, *calls)

    play(scene, worker.script, scheduler=classes())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_waits_too_long_is_503(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        one = await call(stage, protocol)
        await worker.has(1)
        check_shed(
            await ask(stage, protocol),
            *(503, "scheduler_queue_timeout"),
            "timed out waiting for an admission slot",
        )
        await finish(worker, one)

    play(scene, worker.script, scheduler=classes(timeout=1))


def test_the_request_rate_is_429_at_once() -> None:
    async def scene(stage: Stage) -> None:
        assert [(await ask(stage)).status for _ in range(2)] == [200, 200]
        check_shed(
            await ask(stage),
            *(429, "scheduler_queue_full"),
            "request queue is full for this priority class",
        )
        assert scheduler(stage).stats.rate_rejected == 1

    rate = {"max_concurrent_requests": 2, "rate_limit_tokens_per_second": 1}
    play(scene, scheduler=classes(), limiter=rate)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_waiter_that_leaves_frees_its_place_at_once(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        one = await call(stage, protocol)
        await worker.has(1)
        other = await call(stage, protocol)
        await depth_is(stage, 1)
        other.leave()
        await depth_is(stage, 0)
        await finish(worker, one)
        other.close()
        assert len(worker.bodies) == 1
        assert scheduler(stage).lanes[RANKS["default"]].stats.client_cancelled == 1

    play(scene, worker.script, scheduler=classes())


# -- order -------------------------------------------------------------------------------


def test_a_free_slot_goes_to_the_highest_class() -> None:
    worker = Waiting()
    names = ["bulk", "default", "Interactive", " SYSTEM "]

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        calls = [await call(stage, x_smg_priority="system")]
        await worker.has(1)
        for depth, name in enumerate(names, start=1):
            body = ujson.dumps({"model": "m", "messages": [], "user": name}).encode()
            calls.append(await call(stage, body=body, x_smg_priority=name))
            await depth_is(stage, depth)
        await finish(worker, calls[0], *calls[:0:-1])
        served = [ujson.loads(body)["user"] for body in worker.bodies[1:]]
        assert served == names[::-1]

    play(scene, worker.script, scheduler=classes())


def test_a_tenants_ceiling_holds_its_requests_down() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage, x_smg_priority="system", x_tenant="a")
        await ask(stage, x_smg_priority="urgent", x_tenant="a")
        stats = scheduler(stage).stats
        assert stats.clamps == {("header:a", "system", "default"): 1}
        assert stats.unknown_priorities == {"header:a": 1}

    room = {**classes(), "priority_scheduler_default_max_class": "default"}
    play(scene, scheduler=room, tenant_header="x-tenant")


def test_waiting_tenants_are_served_in_turn_when_asked_for() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        calls = [await call(stage)]
        await worker.has(1)
        for depth, (tenant, name) in enumerate(
            (("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1")), start=1
        ):
            body = ujson.dumps({"model": "m", "messages": [], "user": name}).encode()
            calls.append(await call(stage, body=body, x_tenant=tenant))
            await depth_is(stage, depth)
        first, a1, a2, a3, b1 = calls
        await finish(worker, first, a1, b1, a2, a3)

    room = {"priority_scheduler_enabled": True, "priority_scheduler_fairness": "tenant"}
    play(scene, worker.script, scheduler=room, tenant_header="x-tenant")


# -- preemption ---------------------------------------------------------------------------


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


def test_an_uploading_request_is_preempted() -> None:
    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        client = await stage.client()
        request = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nX-SMG-Priority: bulk\r\n"
            b"Content-Type: application/json\r\nContent-Length: 900000\r\n\r\n"
        )
        await client.send(request + b"x" * 1000)
        await eventually(lambda: scheduler(stage).in_flight == 1)
        assert (await ask(stage, x_smg_priority="system")).status == 200
        check_preempted(await client.answer())
        client.close()
        assert len(stage.worker.received) == 1

    play(scene, scheduler=classes())


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


# -- capacity -------------------------------------------------------------------------------


def test_the_slots_are_the_ready_workers() -> None:
    async def scene(stage: Stage) -> None:
        one, other = stage.records
        registry = stage.gateway.registry
        assert scheduler(stage).capacity == 128
        other.labels = {"max_num_seqs": "5"}
        registry.changed()
        assert scheduler(stage).capacity == 69
        registry.set_state(one, WorkerState.NOT_READY)
        assert scheduler(stage).capacity == 5
        registry.remove(other)
        assert scheduler(stage).capacity == 7  # --max-concurrent-requests
        registry.set_state(one, WorkerState.READY)
        assert scheduler(stage).capacity == 64

    async def answers(connection: Connection, request: Received) -> None:
        await connection.answer(b"{}")

    most = {"max_concurrent_requests": 7}
    play(scene, answers, answers, scheduler=classes(), limiter=most)


def test_a_larger_fleet_lets_waiters_in() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        calls = [await call(stage) for _ in range(3)]
        await depth_is(stage, 2)
        slots(stage, 3)
        await worker.has(3)
        for _ in calls:
            worker.go()
        for one in calls:
            assert (await one.answer()).status == 200
            one.close()

    play(scene, worker.script, scheduler=classes())


def test_reservations_above_the_capacity_fall_back_to_the_limit() -> None:
    async def scene(stage: Stage) -> None:
        gate = stage.gateway.dispatcher.gate
        assert gate is not None and isinstance(gate.admission, Limiter)
        assert (await ask(stage)).status == 200

    room = {"priority_scheduler_enabled": True}
    play(scene, scheduler=room, limiter={"max_concurrent_requests": 4})


def test_the_page_shows_every_class() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        client = await stage.client()
        client.close()
        scraper = await type(client).connect(stage.gateway._metrics.ports()[0])
        page = (await scraper.ask(get("/metrics"))).body.decode()
        scraper.close()
        name = "smg_scheduler_admit_total"
        assert f'{name}{{class="default",outcome="admitted"}} 1.0\n' in page
        for each in RANKS:
            assert f'smg_scheduler_inflight{{class="{each}"}} 0.0\n' in page
        assert "smg_admission" not in page

    play(scene, scheduler=classes())
