"""What clients get while every worker reports that it has too much to do."""

from __future__ import annotations

import json

import pytest

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.fleet.spec import parse_spec
from smgproxy.upstream.pool import Connection, WorkerPool
from tests.e2e import forms
from tests.e2e.forms import MODEL
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.uploads import STREAMED
from tests.fakes.client import CHAT, STREAM, Answer, post
from tests.fakes.websocket import RealtimeWorker

SHED = (503, "worker_overload_protection_shed", "3")


async def register(stage: Stage, **spec: object) -> None:
    """Register the worker as POST /workers would, in place of the ready-made one."""
    [record] = stage.records
    stage.worker.loads = b'{"loads":[{"num_waiting_reqs":8}]}'
    stage.gateway.registry.remove(record)
    stage.gateway.fleet.add(parse_spec({"url": stage.worker.url, **spec}))
    await eventually(lambda: any(one.engine_load for one in stage.records))


def counts(stage: Stage) -> tuple[int, ...]:
    """Requests shed at selection and at dispatch, and those that were not."""
    gateway = stage.gateway
    return *gateway.router_stats.sheds.values(), gateway.shedding.fallbacks


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
        assert counts(stage) == (0, 0, 1)

    play(scene)


def test_a_flag_about_overload_makes_the_gateway_shed() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage)
        assert await ask(stage) == SHED
        assert counts(stage) == (1, 0, 0)

    play(
        scene,
        overload={"worker_overload_token_usage": 0.9},
        fleet={"load_monitor_interval": 3, "disable_load_monitoring": True},
    )


def test_a_body_that_would_have_streamed_is_shed_once() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage)
        assert await ask(stage) == SHED
        assert counts(stage) == (1, 0, 0)

    play(
        scene,
        overload={"worker_overload_token_usage": 0.9},
        fleet={"load_monitor_interval": 3, "disable_load_monitoring": True},
        **STREAMED,
    )


def test_limits_of_a_workers_own_make_the_gateway_shed() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage, overload={"waiting_requests": 2})
        assert await ask(stage) == SHED

    play(scene, fleet={"load_monitor_interval": 3})


def message_of(answer: Answer) -> str:
    """The message of an error's envelope."""
    return str(json.loads(answer.body)["error"]["message"])


def flagged_while_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker's next report, while a connection to it is made, is too much."""

    async def dial(pool: WorkerPool, deadline: float) -> Connection:
        connection = await really_dial(pool, deadline)
        pool.worker.is_overloaded = True
        return connection

    really_dial = WorkerPool.dial
    monkeypatch.setattr(WorkerPool, "dial", dial)


SHEDS = {"worker_overload_shed": True}


@pytest.mark.parametrize("body", [CHAT, STREAM], ids=["whole", "stream"])
def test_a_worker_flagged_between_its_choice_and_the_send_is_spared(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    flagged_while_dialled(monkeypatch)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(post(body))
        assert (
            answer.status,
            answer.get("x-smg-error-code"),
            answer.get("retry-after"),
        ) == (503, "worker_overload_protection_shed", "10")
        url = stage.records[0].url
        assert message_of(answer) == (
            f"Worker '{url}' for model 'm' became overloaded before dispatch"
        )
        assert stage.worker.received == []
        # Neither retried nor charged to the worker.
        assert counts(stage) == (0, 1, 0)
        assert stage.records[0].breaker.failures == 0
        assert stage.records[0].backend_errors == 0
        client.close()

    play(scene, overload=SHEDS, retries=RetryOptions(retry_initial_backoff_ms=1))


def test_a_form_is_shed_at_dispatch_too(monkeypatch: pytest.MonkeyPatch) -> None:
    flagged_while_dialled(monkeypatch)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(forms.ask(MODEL, ("file", b"RIFF")))
        assert answer.get("x-smg-error-code") == "worker_overload_protection_shed"
        assert "for model 'm' became overloaded" in message_of(answer)
        assert counts(stage) == (0, 1, 0)
        client.close()

    play(scene, overload=SHEDS)


def test_a_realtime_call_goes_on_as_its_choice_sheds_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flagged_while_dialled(monkeypatch)

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        body = b'{"model":"m"}'
        answer = await client.ask(post(body, path="/v1/realtime/sessions"))
        assert answer.status == 200
        client.close()

    play(scene, overload=SHEDS, kind=RealtimeWorker)


def test_without_shedding_the_worker_that_was_chosen_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    flagged_while_dialled(monkeypatch)

    async def scene(stage: Stage) -> None:
        assert (await ask(stage))[0] == 200
        assert counts(stage) == (0, 0, 0)

    play(scene)


def test_without_protection_no_report_keeps_anybody_out() -> None:
    async def scene(stage: Stage) -> None:
        await register(stage)
        assert not stage.records[0].is_overloaded
        assert (await ask(stage))[0] == 200

    play(scene, overload={"disable_worker_overload_protection": True})
