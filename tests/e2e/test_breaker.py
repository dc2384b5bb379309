"""Who fails in a row gets no requests for a while, and is then tried again."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from smgproxy.core.clock import monotonic
from smgproxy.fleet.breaker import BreakerState, CircuitBreaker
from tests.e2e.asking import error_of, get
from tests.e2e.failing import (
    FAST,
    ask,
    breaks_off,
    cuts,
    drops,
    hangs,
    outcome,
    received,
    register,
    says,
)
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Script, say_ok

NOBODY = (503, "no_available_workers")
CLOSED, OPEN, HALF_OPEN = BreakerState


def limits(failures: int = 2, successes: int = 2, secs: float = 60) -> dict[str, Any]:
    """The room of settings."""
    return {
        "cb_failure_threshold": failures,
        "cb_success_threshold": successes,
        "cb_timeout_duration_secs": secs,
    }


def breaker(stage: Stage) -> CircuitBreaker:
    """That of the first worker."""
    return stage.records[0].breaker


def streaks(stage: Stage) -> tuple[int, int]:
    """Failures and successes in a row."""
    one = breaker(stage)
    return one.failure_streak, one.success_streak


async def time_is_over(one: CircuitBreaker) -> None:
    """An open breaker would let the next request through."""
    await eventually(lambda: monotonic() >= one.reopens_at)


# -- closed, open, half-open ---------------------------------------------------------


def test_the_threshold_opens_it_and_then_clients_are_told_at_once() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(2):
            assert (await ask(stage)).status == 503
        assert breaker(stage).state is OPEN
        answer = await ask(stage)
        assert outcome(answer) == NOBODY
        assert answer.get("retry-after") == "1"
        assert error_of(answer)["message"] == (
            "All workers are unavailable (circuit breaker open or unhealthy)"
        )
        assert received(stage) == [2]

    play(scene, says(503), breaker=limits())


def test_nobody_waits_through_pauses_when_there_is_nobody_to_ask() -> None:
    async def scene(stage: Stage) -> None:
        breaker(stage).note_failure(monotonic())
        assert outcome(await ask(stage)) == NOBODY
        assert received(stage) == [0]
        assert not stage.gateway.router_stats.retries

    retries = dataclasses.replace(
        FAST, retry_initial_backoff_ms=20_000, retry_max_backoff_ms=20_000
    )
    play(scene, retries=retries, breaker=limits(1))


def test_an_open_one_stays_open_until_somebody_asks() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        one = breaker(stage)
        assert one.state is OPEN
        await time_is_over(one)
        assert one.state is OPEN, "its time is over, and no timer says so"
        assert (await ask(stage)).status == 200
        assert one.state is HALF_OPEN
        assert (await ask(stage)).status == 200
        assert one.state is CLOSED
        assert streaks(stage) == (0, 0)
        made = {pair: count for pair, count in one.transitions.items() if count}
        assert made == {
            (CLOSED, OPEN): 1,
            (OPEN, HALF_OPEN): 1,
            (HALF_OPEN, CLOSED): 1,
        }

    play(scene, says(500, 200), breaker=limits(1, 2, 0.1))


def test_a_failure_on_trial_opens_it_again() -> None:
    async def scene(stage: Stage) -> None:
        one = breaker(stage)
        for _ in range(3):
            await ask(stage)
        assert one.state is OPEN
        await time_is_over(one)
        assert (await ask(stage)).status == 500
        assert one.state is OPEN
        assert one.failure_streak == 1
        assert outcome(await ask(stage)) == NOBODY

    play(scene, says(500), breaker=limits(3, 2, 0.1))


def test_requests_go_to_the_others_while_it_is_open() -> None:
    async def scene(stage: Stage) -> None:
        statuses = [(await ask(stage)).status for _ in range(8)]
        assert statuses.count(500) == 2
        assert received(stage) == [2, 6]

    play(scene, says(500), say_ok, breaker=limits())


def test_readiness_and_the_workers_state_do_not_depend_on_it() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        assert breaker(stage).state is OPEN
        assert (await ask(stage, get("/readiness"))).status == 200
        assert stage.records[0].is_ready

    play(scene, says(500), breaker=limits(1))


# -- what is recorded ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "recorded"),
    [
        (says(408), (1, 0)),
        (says(500), (1, 0)),
        (says(502), (1, 0)),
        (says(503), (1, 0)),
        (says(504), (1, 0)),
        (says(429), (0, 0)),
        (says(400), (0, 1)),
        (says(404), (0, 1)),
        (says(501), (0, 1)),
        (says(302), (0, 1)),
        (say_ok, (0, 1)),
        (drops, (1, 0)),
        (hangs, (1, 0)),
        (cuts, (1, 1)),  # the head was a success, its end a failure
    ],
)
def test_outcomes(fault: Script, recorded: tuple[int, int]) -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        one = breaker(stage)
        assert (one.failures, one.successes) == recorded

    play(scene, fault, upstream={"request_timeout_secs": 1})


def test_a_refused_connection_is_a_failure() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        await ask(stage)
        assert streaks(stage) == (1, 0)

    play(scene)


def test_a_stream_that_breaks_off_is_a_success_and_then_a_failure() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage, post(STREAM))
        one = breaker(stage)
        assert (one.successes, one.failures) == (1, 1)
        assert streaks(stage) == (1, 0)

    play(scene, breaks_off)


def test_a_client_that_leaves_says_nothing_about_the_worker() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: stage.worker.received)
        client.reset()
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert (breaker(stage).failures, breaker(stage).successes) == (0, 0)

    play(scene, hangs)


def test_a_full_workers_429_leaves_both_streaks_and_a_400_resets_one() -> None:
    async def scene(stage: Stage) -> None:
        seen = []
        for _ in range(4):
            await ask(stage)
            seen.append(streaks(stage))
        assert seen == [(1, 0), (1, 0), (0, 1), (0, 1)]

    play(scene, says(500, 429, 400, 429))


# -- with retries --------------------------------------------------------------------


@pytest.mark.parametrize("fault", [says(503), drops, cuts])
def test_all_attempts_of_a_request_are_one_failure(fault: Script) -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        assert sum(stage.gateway.router_stats.upstream.values()) == 5
        assert breaker(stage).failures == 1

    play(scene, fault, retries=FAST)


def test_one_failure_for_each_worker_that_a_request_failed_at() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        assert sum(received(stage)) == 5
        assert [record.breaker.failures for record in stage.records] == [1, 1]

    play(scene, says(503), says(503), retries=FAST)


def test_a_retry_that_finds_it_open_answers_in_place_of_the_worker() -> None:
    async def scene(stage: Stage) -> None:
        assert outcome(await ask(stage)) == NOBODY
        assert received(stage) == [1]
        assert stage.gateway.router_stats.retries == {"chat": 1}

    play(scene, says(503), retries=FAST, breaker=limits(1))


def test_a_request_without_an_answer_yet_opens_it_for_others_too() -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == 200
        assert received(stage) == [1, 1]
        assert breaker(stage).state is OPEN
        for _ in range(3):
            assert (await ask(stage)).status == 200
        assert received(stage) == [1, 4]

    play(scene, says(500), say_ok, retries=FAST, breaker=limits(1))


# -- flags and blocks ----------------------------------------------------------------


def test_disabled_it_never_opens_and_still_counts() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(12):
            assert (await ask(stage)).status == 500
        assert breaker(stage).state is CLOSED
        assert streaks(stage) == (12, 0)

    play(scene, says(500), breaker={"disable_circuit_breaker": True})


def test_a_workers_own_threshold_counts_although_it_is_disabled() -> None:
    async def scene(stage: Stage) -> None:
        one = await register(stage, resilience={"cb_failure_threshold": 2})
        await ask(stage)
        assert one.breaker.state is CLOSED
        await ask(stage)
        assert one.breaker.state is OPEN

    play(scene, says(500), breaker={"disable_circuit_breaker": True})


def test_a_workers_own_capacity_codes_record_nothing() -> None:
    async def scene(stage: Stage) -> None:
        one = await register(stage, resilience={"capacity_status_codes": [429, 503]})
        for _ in range(3):
            await ask(stage)
        assert (one.breaker.failures, one.breaker.successes) == (0, 0)

    play(scene, says(503))


def test_a_workers_own_failure_codes_do_not_change_what_is_retried() -> None:
    async def scene(stage: Stage) -> None:
        one = await register(stage, resilience={"retryable_status_codes": [404]})
        assert (await ask(stage)).status == 404
        assert received(stage) == [1]
        assert one.breaker.failures == 1
        assert (await ask(stage)).status == 503
        assert len(stage.worker.received) == 1 + 5
        assert one.breaker.failures == 1, "503 is none of its failures now"

    play(scene, says(404, 503), retries=FAST)
