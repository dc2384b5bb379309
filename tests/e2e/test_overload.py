"""What clients get while every worker reports that it has too much to do."""

from __future__ import annotations

from smgproxy.fleet.spec import parse_spec
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import post

SHED = (503, "worker_overload_protection_shed", "3")


async def register(stage: Stage, **spec: object) -> None:
    """Register the worker as POST /workers would, in place of the ready-made one."""
    [record] = stage.records
    stage.worker.loads = b'{"loads":[{"num_waiting_reqs":8}]}'
    stage.gateway.registry.remove(record)
    stage.gateway.fleet.add(parse_spec({"url": stage.worker.url, **spec}))
    await eventually(lambda: any(one.engine_load for one in stage.records))


async def ask(stage: Stage) -> tuple[int, str | None, str | None]:
    client = await stage.client()
    answer = await client.ask(post())
    client.close()
    return (
        answer.status,
        answer.get("x-smg-error-code"),
        answer.get("retry-after"),
    )


def test_by_default_the_least_loaded_serves_when_all_are_over() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage)
        assert stage.records[0].is_overloaded
        assert (await ask(stage))[0] == 200
        assert stage.gateway.router.overload_fallbacks == 1

    play(scene)


def test_a_flag_about_overload_makes_the_gateway_shed() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage)
        assert await ask(stage) == SHED
        assert stage.gateway.router.overload_sheds == 1

    play(
        scene,
        overload={"worker_overload_token_usage": 0.9},
        fleet={"load_monitor_interval": 3, "disable_load_monitoring": True},
    )


def test_limits_of_a_workers_own_make_the_gateway_shed() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage, overload={"waiting_requests": 2})
        assert await ask(stage) == SHED

    play(scene, fleet={"load_monitor_interval": 3})


def test_without_protection_no_report_keeps_anybody_out() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage)
        assert not stage.records[0].is_overloaded
        assert (await ask(stage))[0] == 200

    play(scene, overload={"disable_worker_overload_protection": True})
