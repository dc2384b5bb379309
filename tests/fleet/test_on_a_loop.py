"""The same fleet on a real event loop: nothing may be left when it is closed."""

from __future__ import annotations

import asyncio

from smgproxy.fleet.fleet import Fleet
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.spec import WorkerSpec
from smgproxy.fleet.worker import HttpPoolSettings, WorkerState
from tests.fakes.engine import FakeEngines, sglang

A, B, C = "http://a:1", "http://b:1", "http://c:1"
OPTIONS = FleetOptions(job_queue_concurrency=2)


def fleet(registry: Registry, engines: FakeEngines) -> Fleet:
    return Fleet(
        registry,
        OPTIONS,
        engines.fetch,
        asyncio.get_running_loop().create_task,
        lambda worker: None,
        sleep=asyncio.sleep,
        http_pool=HttpPoolSettings(),
    )


async def all_registered(registry: Registry, count: int) -> None:
    async with asyncio.timeout(5):
        while len(registry) < count:
            await asyncio.sleep(0.001)


async def only_this_task() -> None:
    async with asyncio.timeout(5):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)


def test_close_leaves_no_task_of_a_fleet_in_full_swing() -> None:
    async def run() -> None:
        registry, engines = Registry(), FakeEngines()
        engines.tables = {A: sglang(), B: sglang()}
        it = fleet(registry, engines)
        it.start([A, B], None)
        await all_registered(registry, 2)
        it.remove(registry.all()[1].id)
        it.add(WorkerSpec(C))  # down: asked again in a second
        assert registry.all()[1].state is WorkerState.DRAINING
        it.close()
        await only_this_task()

    asyncio.run(run())


def test_close_before_anything_had_its_turn_leaves_nothing() -> None:
    async def run() -> None:
        it = fleet(Registry(), FakeEngines())
        it.start([A, B, C], None)
        it.close()
        await only_this_task()

    asyncio.run(run())


def test_close_cuts_a_worker_that_is_slow_to_answer() -> None:
    async def run() -> None:
        engines = FakeEngines()
        engines.tables = {A: sglang()}
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def hang() -> None:
            await never

        engines.before = hang
        it = fleet(Registry(), engines)
        it.start([A], None)
        async with asyncio.timeout(5):
            while not engines.asked:
                await asyncio.sleep(0.001)
        it.close()
        await only_this_task()
        assert never.cancelled()

    asyncio.run(run())
