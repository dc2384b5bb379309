"""Retries of streams, of bodies that are not kept, and without retries."""

from __future__ import annotations

from typing import Any

import pytest
import ujson

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.telemetry.stats import RouterStats
from tests.e2e.failing import (
    FAST,
    ask,
    breaks_off,
    drops,
    received,
    says,
)
from tests.e2e.stage import Stage, play
from tests.fakes.client import CHAT, STREAM, post
from tests.fakes.worker import Connection, FakeWorker, Received, Script, say_ok

# The body is kept because the policy reads it, and not for retries.
CACHE_AWARE: dict[str, Any] = {"routing": {"policy": "cache_aware"}}


def counts(stage: Stage) -> RouterStats:
    return stage.gateway.router_stats


# -- streams -------------------------------------------------------------------------


def test_a_stream_is_retried_until_its_head_comes() -> None:
    left = [503, 503]

    async def streams(connection: Connection, request: Received) -> None:
        if left:
            await connection.answer(b"{}", left.pop())
            return
        await connection.start_stream()
        await connection.chunk(b"data: [DONE]\n\n")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        answer = await ask(stage, post(STREAM))
        assert (answer.status, answer.body) == (200, b"data: [DONE]\n\n")
        assert received(stage) == [3]

    play(scene, streams, retries=FAST)


def test_a_stream_that_never_begins_is_an_ordinary_answer() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, post(STREAM))
        assert (answer.status, answer.body) == (503, b'{"said":503}')
        assert answer.get("content-type") == "application/json"
        assert received(stage) == [5]

    play(scene, says(503), retries=FAST)


def test_nothing_is_retried_behind_the_head_of_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, post(STREAM))
        assert answer.status == 200 and answer.is_whole
        first, error, done, rest = answer.body.split(b"\n\n")
        assert (first, done, rest) == (b"data: 1", b"data: [DONE]", b"")
        assert ujson.loads(error[6:])["error"]["type"] == "stream_error"
        assert received(stage) == [1, 0]
        assert not counts(stage).retries
        [breaker] = [one.breaker for one in stage.records if one.breaker.failures]
        assert (breaker.successes, breaker.failures) == (1, 1)

    play(scene, breaks_off, say_ok, retries=FAST)


# -- bodies that are not kept --------------------------------------------------------


@pytest.mark.parametrize(("fault", "status"), [(says(503), 503), (drops, 500)])
def test_a_body_that_is_streamed_is_sent_once(fault: Script, status: int) -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == status
        assert received(stage) == [1]
        assert stage.gateway.upstream.resends == 0
        assert not counts(stage).retries and not counts(stage).exhausted
        assert counts(stage).body_paths == {("streamed", "retry_forfeited"): 1}

    play(
        scene,
        fault,
        retries=FAST,
        dispatch={"max_buffered_request_bytes": len(CHAT) - 1},
    )


def test_a_body_of_just_the_limit_is_kept() -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == 503
        assert received(stage) == [5]

    play(
        scene,
        says(503),
        retries=FAST,
        dispatch={"max_buffered_request_bytes": len(CHAT)},
    )


# -- without retries -----------------------------------------------------------------


@pytest.mark.parametrize(
    "retries", [{"disable_retries": True}, {"retry_max_retries": 1}]
)
def test_without_retries_there_is_one_attempt_which_is_exhausted_at_once(
    retries: dict[str, Any],
) -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(2):
            assert (await ask(stage)).status == 503
        assert received(stage) == [2]
        assert not counts(stage).retries
        assert counts(stage).exhausted == {"chat": 2}

    play(scene, says(503), retries=RetryOptions(**retries), **CACHE_AWARE)


@pytest.mark.parametrize(("rooms", "sends"), [(CACHE_AWARE, 2), ({}, 1)])
def test_the_resend_depends_on_the_bodys_path_and_not_on_retries(
    rooms: dict[str, Any], sends: int
) -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage)).status == 500
        assert received(stage) == [sends]
        assert stage.gateway.upstream.resends == sends - 1

    play(scene, drops, retries=RetryOptions(disable_retries=True), **rooms)


# -- a fleet that changes meanwhile --------------------------------------------------


def test_a_retry_sees_the_fleet_as_it_is_then() -> None:
    async def scene(stage: Stage) -> None:
        other = FakeWorker(say_ok)
        await other.start()

        async def script(connection: Connection, request: Received) -> None:
            # The fleet is changed while this attempt runs.
            stage.gateway.registry.remove(stage.records[0])
            stage.register(other, stage.gateway.settings.upstream.http_pool())
            await connection.answer(b"{}", 503)

        stage.worker.script = script
        assert (await ask(stage)).status == 200
        assert (len(stage.worker.received), len(other.received)) == (1, 1)
        await other.stop()

    play(scene, retries=FAST)
