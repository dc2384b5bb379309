"""The priority scheduler over sockets: sheds, order, capacity of the fleet."""

from __future__ import annotations

import pytest
import ujson

from smgproxy.admission.classes import RANKS
from smgproxy.admission.limiter import Limiter
from smgproxy.fleet.worker import WorkerState
from tests.e2e.admitting import (
    PROTOCOLS,
    Waiting,
    ask,
    call,
    check_shed,
    classes,
    depth_is,
    finish,
    named,
    scheduler,
    slots,
)
from tests.e2e.asking import get
from tests.e2e.stage import Stage, play
from tests.fakes.worker import Connection, Received

# -- sheds ---------------------------------------------------------------------------


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


# -- order ---------------------------------------------------------------------------


def test_a_free_slot_goes_to_the_highest_class() -> None:
    worker = Waiting()
    names = ["bulk", "default", "Interactive", " SYSTEM "]

    async def scene(stage: Stage) -> None:
        slots(stage, 1)
        calls = [await call(stage, x_smg_priority="system")]
        await worker.has(1)
        for depth, name in enumerate(names, start=1):
            body = named(name)
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
            body = named(name)
            calls.append(await call(stage, body=body, x_tenant=tenant))
            await depth_is(stage, depth)
        first, a1, a2, a3, b1 = calls
        await finish(worker, first, a1, b1, a2, a3)

    room = {"priority_scheduler_enabled": True, "priority_scheduler_fairness": "tenant"}
    play(scene, worker.script, scheduler=room, tenant_header="x-tenant")


# -- capacity ------------------------------------------------------------------------


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
