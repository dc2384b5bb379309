"""Requests that wait for a permit: their bodies, and clients that leave."""

from __future__ import annotations

import asyncio
import time

import pytest

from smgproxy.core.exchange import Verdict
from tests.e2e.admitting import (
    PROTOCOLS,
    Waiting,
    call,
    depth_is,
    limiter,
    limits_of,
    named,
)
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import CHAT, post
from tests.fakes.http2_client import Http2Client

BIG = CHAT + b" " * 300_000
# While reading is paused a client's end is found by looking (ruling 16).
PAUSED_SECS = 1.5


def test_the_body_of_a_waiting_request_is_not_read() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        client = await stage.client()
        sending = asyncio.ensure_future(client.send(post(CHAT + b" " * 40_000_000)))
        await depth_is(stage, 1)
        [waiting] = [e for e in stage.gateway.dispatcher.running if e.phase == 1]
        await eventually(lambda: waiting.request.delivered > 64 * 1024)
        seen = waiting.request.delivered
        await asyncio.sleep(0.1)  # nothing may happen in it
        assert waiting.request.delivered == seen < 1024 * 1024
        assert not sending.done()
        worker.go()
        await worker.has(2)
        await sending
        worker.go()
        for answer in (await one.answer(), await client.answer()):
            assert answer.status == 200
        one.close()
        client.close()

    play(scene, worker.script, limiter=limits_of(1, 5))


def test_100_continue_waits_for_the_permit() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        client = await stage.client()
        request = post(headers="Expect: 100-continue\r\n")
        await client.send(request[: -len(CHAT)])
        await depth_is(stage, 1)
        worker.go()
        line = await client.reader.readuntil(b"\r\n\r\n")
        assert line == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(CHAT)
        await worker.has(2)
        worker.go()
        assert (await client.answer()).status == 200
        await one.answer()
        one.close()
        client.close()

    play(scene, worker.script, limiter=limits_of(1, 5))


# -- who leaves ----------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_waiter_that_leaves_frees_its_place_at_once(protocol: str) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage, protocol)
        await worker.has(1)
        other = await call(stage, protocol)
        await depth_is(stage, 1)
        began = time.monotonic()
        other.leave()
        await depth_is(stage, 0)
        assert time.monotonic() - began < 0.4
        worker.go()
        assert (await one.answer()).status == 200
        one.close()
        other.close()
        assert len(worker.bodies) == 1
        stats = limiter(stage).stats
        assert (stats.allowed, stats.rejected) == (1, 0)
        assert stage.responses()[499, "client_closed_request"] == 1

    play(scene, worker.script, limiter=limits_of(1, 5))


@pytest.mark.parametrize(
    ("how", "size"),
    # A FIN lies behind the body: it is seen when the kernel has room for what is not
    # read. A reset overtakes.
    [("finish", 1_000), ("finish", 100_000), ("reset", 1_000), ("reset", 300_000)],
)
def test_a_waiter_with_an_unread_body_is_missed_within_a_second(
    how: str, size: int
) -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        client = await stage.client()
        await client.send(post(BIG)[:size])
        await depth_is(stage, 1)
        began = time.monotonic()
        getattr(client, how)()
        await depth_is(stage, 0)
        assert time.monotonic() - began < PAUSED_SECS
        worker.go()
        assert (await one.answer()).status == 200
        one.close()
        client.close()
        assert len(worker.bodies) == 1

    play(scene, worker.script, limiter=limits_of(1, 5))


def test_an_http2_waiter_with_an_unread_body_is_missed_at_once() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        client = await Http2Client.connect(stage.port)
        stream = client.ask(BIG[:30_000], is_whole=False)
        await depth_is(stage, 1)
        client.take_back(stream)
        await depth_is(stage, 0)
        client.ask(BIG[:30_000], is_whole=False)
        await depth_is(stage, 1)
        client.close()
        await depth_is(stage, 0)
        worker.go()
        await one.answer()
        one.close()

    play(scene, worker.script, limiter=limits_of(1, 5))


def test_a_permit_for_a_waiter_that_left_in_the_same_turn_goes_on() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        second, third = await call(stage), None
        await depth_is(stage, 1)
        third = await call(stage, body=named("third"))
        await depth_is(stage, 2)
        first, waiter = [
            next(e for e in stage.gateway.dispatcher.running if e.phase == phase)
            for phase in (2, 1)
        ]
        for exchange in stage.gateway.dispatcher.running:
            if exchange.phase == 1 and exchange.opened_at < waiter.opened_at:
                waiter = exchange
        # Granted and gone between two steps of its task.
        gate = stage.gateway.dispatcher.gate
        assert gate is not None
        gate.leave(first)
        waiter.cancel(Verdict.CLIENT_GONE)
        await worker.has(2)
        assert worker.bodies[1] == named("third")
        for each in (one, third):
            worker.go()
            assert (await each.answer()).status == 200
            each.close()
        second.leave()

    play(scene, worker.script, limiter=limits_of(1, 5))
