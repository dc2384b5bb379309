"""The concurrency limit over sockets: who runs, who waits, who is turned away."""

from __future__ import annotations

import asyncio
import time

import pytest

from smgproxy.admission.keys import Keys, Secret
from tests.e2e.admitting import (
    CHAT_PATH,
    PROTOCOLS,
    Waiting,
    ask,
    call,
    check_shed,
    depth_is,
    limiter,
    limits_of,
    named,
)
from tests.e2e.asking import error_of, get
from tests.e2e.stage import Stage, eventually, play

FULL = (429, "admission_queue_full", "admission queue is at capacity")


# -- who is turned away --------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_full_queue_is_429(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        calls = [await call(stage, protocol) for _ in range(2)]
        await depth_is(stage, 1)
        check_shed(await ask(stage, protocol), *FULL)
        for one in calls:
            await eventually(lambda: worker.running)
            worker.go()
            assert (await one.answer()).status == 200
            one.close()
        assert stage.responses() == {(429, "admission_queue_full"): 1, (200, ""): 2}
        stats = limiter(stage).stats
        assert (stats.allowed, stats.rejected, stats.turned_away) == (2, 1, 1)

    play(scene, worker.script, limiter=limits_of(1, 1))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_without_a_queue_it_is_429_at_once(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage, protocol)
        await worker.has(1)
        message = "concurrency limit reached and queuing is disabled"
        check_shed(await ask(stage, protocol), 429, "admission_queue_full", message)
        worker.go()
        assert (await one.answer()).status == 200
        one.close()
        assert limiter(stage).stats.turned_away == 0

    play(scene, worker.script, limiter=limits_of(1, 0))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_who_waits_too_long_gets_503_and_never_reaches_a_worker(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage, protocol)
        await worker.has(1)
        began = time.monotonic()
        answer = await ask(stage, protocol)
        assert 0.95 < time.monotonic() - began < 1.5
        message = "timed out waiting for an admission slot"
        check_shed(answer, 503, "admission_queue_timeout", message)
        worker.go()
        assert (await one.answer()).status == 200
        one.close()
        assert len(worker.bodies) == 1

    play(scene, worker.script, limiter=limits_of(1, 5, timeout=1))


def test_anthropics_route_has_its_own_shape() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        answer = await ask(stage, path="/v1/messages")
        assert answer.status == 429 and answer.get("retry-after") == "2"
        assert answer.get("x-smg-error-code") == "admission_queue_full"
        assert error_of(answer)["type"] == "rate_limit_error"
        worker.go()
        await one.answer()
        one.close()

    play(scene, worker.script, limiter=limits_of(1, 0))


# -- who is served, and when ---------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_waiters_are_served_in_the_order_they_came(protocol: str) -> None:
    worker = Waiting()
    names = [named(str(n)) for n in range(12)]

    async def scene(stage: Stage) -> None:
        calls = []
        for n, name in enumerate(names):
            calls.append(await call(stage, protocol, name))
            await depth_is(stage, max(0, n - 1))
        for n, one in enumerate(calls):
            await worker.has(min(n + 2, len(names)))
            worker.go()
            assert (await one.answer()).status == 200
            one.close()
        assert worker.bodies == names
        assert worker.most == 2

    play(scene, worker.script, limiter=limits_of(2, 20))


def test_a_newcomer_does_not_take_the_permit_of_a_waiter() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        first = await call(stage, body=named("a"))
        await worker.has(1)
        second = await call(stage, body=named("b"))
        await depth_is(stage, 1)
        worker.go()
        third = await call(stage, body=named("c"))
        for one in (first, second, third):
            answered = asyncio.ensure_future(one.answer())
            await eventually(lambda: worker.running or answered.done())
            if not answered.done():
                worker.go()
            assert (await answered).status == 200
            one.close()
        assert worker.bodies == [named("a"), named("b"), named("c")]

    play(scene, worker.script, limiter=limits_of(1, 20))


def test_a_key_comes_before_admission_and_admission_before_the_body() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage, authorization="Bearer k")
        await worker.has(1)
        assert (await ask(stage)).status == 401
        answer = await ask(stage, body=b"no json", authorization="Bearer k")
        assert answer.status == 429
        worker.go()
        await one.answer()
        one.close()

    keys = Keys(shared=[Secret("k")])
    play(scene, worker.script, limiter=limits_of(1, 0), keys=keys)


def test_other_routes_pass_it_by() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        client = await stage.client()
        for path in ("/health", "/readiness", "/v1/models", "/workers", "/loads"):
            assert (await client.ask(get(path))).status == 200, path
        assert (await client.ask(get("/nope"))).status == 404
        client.close()
        worker.go()
        await one.answer()
        one.close()
        assert limiter(stage).stats.rejected == 0

    play(scene, worker.script, limiter=limits_of(1, 0))


def test_without_a_limit_nobody_waits_and_nothing_is_shown() -> None:
    async def scene(stage: Stage) -> None:
        assert stage.gateway.dispatcher.gate is None
        assert (await ask(stage)).status == 200

    play(scene)


def test_in_refill_mode_more_than_the_cap_may_run() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        calls = []
        for count in (1, 2, 3):  # one token comes in the time that one may wait
            calls.append(await call(stage))
            await worker.has(count)
        assert limiter(stage).in_flight == 3
        for one in calls:
            worker.go()
            assert (await one.answer()).status == 200
            one.close()

    rate = {**limits_of(1, 5), "rate_limit_tokens_per_second": 20}
    play(scene, worker.script, limiter=rate)


def test_the_page_shows_what_was_decided() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        client = await stage.client()
        client.close()
        port = stage.gateway._metrics.ports()[0]
        scraper = await type(client).connect(port)
        page = (await scraper.ask(get("/metrics"))).body.decode()
        scraper.close()
        assert 'smg_http_rate_limit_total{result="allowed"} 1.0\n' in page
        assert "smg_admission_inflight 0.0\n" in page
        assert "smg_scheduler" not in page
        assert CHAT_PATH in page

    play(scene, limiter=limits_of(1, 0))
