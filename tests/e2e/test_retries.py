"""Which failed attempts are made again, where, how often, and what clients get."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.telemetry.stats import RouterStats
from tests.e2e.admitting import limiter, limits_of
from tests.e2e.failing import (
    FAST,
    ask,
    cuts,
    drops,
    hangs,
    outcome,
    received,
    says,
)
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import BODIES, CHAT, post
from tests.fakes.worker import Connection, Received, Script, say_ok

RETRIED = (408, 429, 502, 503, 504)
PASSED_ON = (302, 400, 401, 404, 409, 413, 422, 425, 499, 501, 520, 529)


def counts(stage: Stage) -> RouterStats:
    return stage.gateway.router_stats


# -- which answers are retried -------------------------------------------------------


@pytest.mark.parametrize("status", RETRIED)
def test_an_answer_that_may_be_better_next_time_is_asked_for_five_times(
    status: int,
) -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage)
        assert (answer.status, answer.body) == (status, b'{"said":%d}' % status)
        assert received(stage) == [5]
        assert counts(stage).upstream == {(status, ""): 5}
        assert counts(stage).retries == {"chat": 4}
        assert counts(stage).exhausted == {"chat": 1}
        assert sum(counts(stage).requests.values()) == 1
        assert stage.records[0].selections == {("m", "round_robin"): 5}

    play(scene, says(status), retries=FAST)


@pytest.mark.parametrize("status", PASSED_ON)
def test_any_other_answer_is_passed_on_at_once(status: int) -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == status
        assert received(stage) == [1]
        assert not counts(stage).retries and not counts(stage).exhausted

    play(scene, says(status), retries=FAST)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_a_500_is_asked_of_each_worker_once(workers: int) -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage)
        assert (answer.status, answer.body) == (500, b'{"said":500}')
        assert received(stage) == [1] * workers
        assert counts(stage).retries.get("chat", 0) == workers - 1
        assert not counts(stage).exhausted, "there was nobody left to ask"

    play(scene, *[says(500)] * workers, retries=FAST)


def test_after_500s_of_others_the_rest_of_the_attempts_go_to_who_is_left() -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == 503
        assert received(stage) == [1, 1, 3]

    play(scene, says(500), says(500), says(503), retries=FAST)


def test_who_answered_503_may_be_asked_again() -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == 503
        assert received(stage) == [3, 2]

    play(scene, says(503), says(503), retries=FAST)


def test_the_first_good_answer_ends_it_and_nothing_of_the_bad_ones_is_seen() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage)
        assert (answer.status, answer.body) == (200, b'{"said":200}')
        assert answer.get("x-smg-error-code") is None
        assert received(stage) == [3]
        assert not counts(stage).exhausted and not counts(stage).errors
        assert stage.responses() == {(200, ""): 1}

    play(scene, says(503, 429, 200), retries=FAST)


def test_every_attempt_sends_the_same_request() -> None:
    async def scene(stage: Stage) -> None:
        await ask(stage)
        first, *others = stage.worker.received
        assert first.body == CHAT
        for other in others:
            assert (other.raw_head, other.body) == (first.raw_head, first.body)

    play(scene, says(503), retries=FAST)


@pytest.mark.parametrize("path", BODIES)
def test_every_route_is_retried(path: str) -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage, post(path=path))).status == 200
        assert received(stage) == [2]
        assert sum(counts(stage).retries.values()) == 1

    play(scene, says(503, 200), retries=FAST)


def test_the_workers_retry_after_is_relayed_and_not_obeyed() -> None:
    async def scene(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        answer = await ask(stage)
        assert asyncio.get_running_loop().time() - began < 2
        assert (answer.status, answer.get("retry-after")) == (429, "7")
        assert received(stage) == [5]

    play(scene, says(429, headers="retry-after: 7\r\n"), retries=FAST)


def test_a_workers_error_code_is_never_taken_for_the_gateways() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage)
        assert answer.get("x-smg-error-code") is None
        assert answer.get("x-foo") == "bar"

    play(
        scene,
        says(503, headers="x-smg-error-code: no_available_workers\r\nx-foo: bar\r\n"),
        retries=FAST,
    )


# -- what brought no whole answer ----------------------------------------------------


def test_a_connection_dropped_unanswered_is_retried_and_each_send_repeated() -> None:
    async def scene(stage: Stage) -> None:
        assert outcome(await ask(stage)) == (500, "call_upstream_request_error")
        assert received(stage) == [10]
        assert stage.gateway.upstream.resends == 5
        assert counts(stage).upstream == {(500, "call_upstream_request_error"): 5}
        assert counts(stage).exhausted == {"chat": 1}

    play(scene, drops, retries=FAST)


def test_a_refused_connection_is_retried_and_each_dial_repeated() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        assert outcome(await ask(stage)) == (500, "call_upstream_connection_failed")
        assert counts(stage).upstream == {(500, "call_upstream_connection_failed"): 5}
        assert stage.gateway.upstream.resends == 5
        assert stage.records[0].backend_errors == 5

    play(scene, retries=FAST)


def test_a_body_cut_short_is_retried() -> None:
    async def scene(stage: Stage) -> None:
        assert outcome(await ask(stage)) == (500, "read_response_body_failed")
        assert received(stage) == [5]
        assert stage.gateway.upstream.resends == 0
        assert counts(stage).exhausted == {"chat": 1}

    play(scene, cuts, retries=FAST)


def test_a_timeout_is_retried_with_its_whole_time_and_not_resent() -> None:
    async def scene(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        assert outcome(await ask(stage)) == (504, "call_upstream_timeout")
        assert asyncio.get_running_loop().time() - began > 2 * 0.9
        assert received(stage) == [2]
        assert stage.gateway.upstream.resends == 0
        assert stage.records[0].timeouts == 2

    play(
        scene,
        hangs,
        retries=dataclasses.replace(FAST, retry_max_retries=2),
        upstream={"request_timeout_secs": 1},
    )


@pytest.mark.parametrize("fault", [drops, cuts])
def test_another_worker_answers_for_one_that_fails(fault: Script) -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(4):
            assert (await ask(stage)).status == 200

    play(scene, fault, say_ok, retries=FAST)


def test_a_killed_worker_stays_ready_and_no_client_notices() -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        for _ in range(4):
            assert (await ask(stage)).status == 200
        assert [record.is_ready for record in stage.records] == [True, True]

    play(scene, say_ok, say_ok, retries=FAST)


def test_what_the_gateway_refuses_itself_is_not_retried() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, post(CHAT.replace(b'"m"', b'"nope"')))
        assert outcome(answer) == (404, "model_not_found")
        for record in stage.records:
            stage.gateway.registry.remove(record)
        assert outcome(await ask(stage)) == (404, "model_not_found")
        assert not counts(stage).retries and not counts(stage).exhausted

    play(scene, retries=FAST)


# -- pauses --------------------------------------------------------------------------


def test_pauses_grow_to_their_limit_and_are_counted_by_the_retrys_number() -> None:
    async def scene(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        await ask(stage)
        assert asyncio.get_running_loop().time() - began > 0.03
        pauses = counts(stage).backoffs
        assert [one.total for one in pauses.values()] == [0.004, 0.01, 0.01, 0.01]
        assert [*pauses] == [1, 2, 3, 4]

    retries = RetryOptions(
        retry_initial_backoff_ms=4,
        retry_max_backoff_ms=10,
        retry_backoff_multiplier=3,
        retry_jitter_factor=0,
    )
    play(scene, says(503), retries=retries)


def test_a_client_that_leaves_in_a_pause_ends_it() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: counts(stage).retries)
        client.reset()
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert received(stage) == [1]
        assert stage.responses() == {(499, "client_closed_request"): 1}

    play(scene, says(503), retries=RetryOptions(retry_initial_backoff_ms=20_000))


def test_a_stop_that_has_no_time_left_ends_a_pause() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: counts(stage).retries)
        stage.gateway.stop()
        stage.gateway.stop()  # at once
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert received(stage) == [1]
        client.close()

    play(scene, says(503), retries=RetryOptions(retry_initial_backoff_ms=20_000))


def test_one_permit_is_held_over_all_attempts_and_pauses() -> None:
    async def scene(stage: Stage) -> None:
        gate = limiter(stage)
        held = set()

        async def script(connection: Connection, request: Received) -> None:
            held.add(gate.in_flight)
            await connection.answer(b"{}", 503)

        stage.worker.script = script
        first, second = await asyncio.gather(ask(stage), ask(stage))
        assert (first.status, second.status) == (503, 503)
        assert held == {1}
        assert gate.stats.allowed == 2
        assert received(stage) == [10]

    play(scene, retries=FAST, limiter=limits_of(1, 5))
