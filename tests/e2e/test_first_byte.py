"""--first-byte-timeout-secs: who sends nothing is given up for somebody else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.e2e.failing import FAST, ask, hangs, outcome, received
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, post
from tests.fakes.worker import Connection, Received, say_ok

SOON: Any = 0.15
LIMIT = {"first_byte_timeout_secs": SOON}


async def says_half(connection: Connection, request: Received) -> None:
    """A worker that does not get its head finished."""
    await connection.send(b"HTTP/1.1 200 OK\r\n")
    await connection.until_gone()


async def begins_late(connection: Connection, request: Received) -> None:
    """A worker that is in time with its head only."""
    await connection.start_stream()
    await asyncio.sleep(2 * SOON)
    await connection.chunk(b"data: 1\n\n")
    await connection.end_stream()


@pytest.mark.parametrize("request_bytes", [post(), post(STREAM)], ids=["chat", "sse"])
@pytest.mark.parametrize("script", [hangs, says_half])
def test_another_worker_answers_and_the_silent_one_is_cut_and_charged(
    script: Any, request_bytes: bytes
) -> None:
    async def scene(stage: Stage) -> None:
        assert (await ask(stage, request_bytes)).status == 200
        assert received(stage) == [1, 1]
        await eventually(lambda: not stage.worker.open)
        silent, other = stage.records
        assert (silent.timeouts, other.timeouts) == (1, 0)
        assert (silent.breaker.failures, other.breaker.failures) == (1, 0)
        upstream = stage.gateway.router_stats.upstream
        assert upstream == {(504, "call_upstream_timeout"): 1, (200, ""): 1}

    play(scene, script, say_ok, retries=FAST, dispatch=LIMIT)


def test_each_worker_is_asked_once_and_then_the_client_is_told() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage)
        assert outcome(answer) == (504, "call_upstream_timeout")
        assert received(stage) == [1, 1]
        assert stage.gateway.upstream.resends == 0

    play(scene, hangs, hangs, retries=FAST, dispatch=LIMIT)


def test_behind_the_head_there_is_all_the_time_of_the_request() -> None:
    async def scene(stage: Stage) -> None:
        answer = await ask(stage, post(STREAM))
        assert (answer.status, answer.body) == (200, b"data: 1\n\n")
        assert received(stage) == [1]

    play(scene, begins_late, retries=FAST, dispatch=LIMIT)


def test_a_client_that_leaves_meanwhile_is_not_taken_for_a_timeout() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post())
        await eventually(lambda: stage.worker.received)
        client.reset()
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert stage.records[0].timeouts == 0
        assert stage.responses() == {(499, "client_closed_request"): 1}

    play(scene, hangs, say_ok, retries=FAST, dispatch={"first_byte_timeout_secs": 10})
