"""The concurrency limit over sockets: who runs, who waits, who is turned away."""

from __future__ import annotations

import asyncio
import time

import pytest
import ujson

from smgproxy.admission.keys import Keys, Secret
from smgproxy.core.exchange import Verdict
from tests.e2e.admitting import (
    CHAT_PATH,
    PROTOCOLS,
    Waiting,
    ask,
    call,
    check_shed,
    depth_is,
    limiter,
)
from tests.e2e.asking import error_of, get
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import EVENTS, SSE_HEAD
from tests.fakes.client import CHAT, STREAM, post
from tests.fakes.http2_client import Http2Client
from tests.fakes.worker import Connection, Received

BIG = b'{"model":"m","messages":[],"pad":"' + b"x" * 300_000 + b'"}'
FULL = (429, "admission_queue_full", "admission queue is at capacity")
# While reading is paused a client's end is found by looking (ruling 16).
PAUSED_SECS = 1.5


def limits(capacity: int = 1, size: int = 10, timeout: int = 60) -> dict[str, int]:
    return {
        "max_concurrent_requests": capacity,
        "queue_size": size,
        "queue_timeout_secs": timeout,
    }


def named(name: str) -> bytes:
    """A chat body that a worker can tell from others."""
    return ujson.dumps({"model": "m", "messages": [], "user": name}).encode()


# -- who is turned away ----------------------------------------------------------------


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

    play(scene, worker.script, limiter=limits(1, 1))


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

    play(scene, worker.script, limiter=limits(1, 0))


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

    play(scene, worker.script, limiter=limits(1, 5, timeout=1))


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

    play(scene, worker.script, limiter=limits(1, 0))


# -- who is served, and when -----------------------------------------------------------


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

    play(scene, worker.script, limiter=limits(2, 20))


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

    play(scene, worker.script, limiter=limits(1, 20))


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
    play(scene, worker.script, limiter=limits(1, 0), keys=keys)


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

    play(scene, worker.script, limiter=limits(1, 0))


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

    rate = {**limits(1, 5), "rate_limit_tokens_per_second": 20}
    play(scene, worker.script, limiter=rate)


# -- the body of a waiting request -----------------------------------------------------


def test_the_body_of_a_waiting_request_is_not_read() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one = await call(stage)
        await worker.has(1)
        client = await stage.client()
        sending = asyncio.ensure_future(
            client.send(post(b'{"model":"m","pad":"' + b"x" * 40_000_000 + b'"}'))
        )
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

    play(scene, worker.script, limiter=limits(1, 5))


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

    play(scene, worker.script, limiter=limits(1, 5))


# -- who leaves --------------------------------------------------------------------------


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

    play(scene, worker.script, limiter=limits(1, 5))


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

    play(scene, worker.script, limiter=limits(1, 5))


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

    play(scene, worker.script, limiter=limits(1, 5))


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

    play(scene, worker.script, limiter=limits(1, 5))


# -- how long a permit is held -----------------------------------------------------------


async def held_and_free(stage: Stage) -> None:
    """The only permit is free again: a plain request gets it at once."""
    await eventually(lambda: limiter(stage).in_flight == 0)


def test_a_stream_holds_its_permit_to_its_last_byte() -> None:
    ends: list[asyncio.Future[None]] = []

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        ends.append(asyncio.get_running_loop().create_future())
        await ends[-1]
        await connection.chunk(EVENTS[-1])
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post(STREAM))
        assert (await client.head()).status == 200
        assert await client.chunk() == EVENTS[0]
        assert limiter(stage).in_flight == 1
        check_shed(
            await ask(stage),
            *(429, "admission_queue_full"),
            "concurrency limit reached and queuing is disabled",
        )
        ends[0].set_result(None)
        assert await client.chunk() == EVENTS[-1]
        assert await client.chunk() == b""
        await held_and_free(stage)
        client.close()

    play(scene, script, limiter=limits(1, 0))


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nab",
        b"nonsense\r\n\r\n",
        SSE_HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nda",
        b"",
    ],
)
@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_a_worker_that_fails_gives_the_permit_back(reply: bytes, body: bytes) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(reply)
        connection.reset()

    async def scene(stage: Stage) -> None:
        for _ in range(3):  # with one permit, and no queue
            await ask(stage, body=body)
            await held_and_free(stage)

    play(scene, script, limiter=limits(1, 0))


def test_a_client_that_leaves_mid_stream_gives_the_permit_back() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(EVENTS[0])
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(post(STREAM))
        await client.head()
        await client.chunk()
        client.reset()
        await held_and_free(stage)

    play(scene, script, limiter=limits(1, 0))


def test_a_request_that_is_no_json_gives_the_permit_back() -> None:
    async def scene(stage: Stage) -> None:
        for _ in range(3):
            assert (await ask(stage, body=b"{")).status == 400

    play(scene, limiter=limits(1, 0))


def test_no_worker_gives_the_permit_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.gateway.registry.remove(stage.records[0])
        for _ in range(3):
            assert (await ask(stage)).status in (404, 503)

    play(scene, limiter=limits(1, 0))


# -- the end ------------------------------------------------------------------------------


def test_waiters_are_served_while_the_gateway_drains() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one, other = await call(stage), await call(stage)
        await depth_is(stage, 1)
        stage.gateway.stop()
        await eventually(lambda: stage.gateway.listener.is_draining)
        worker.go()
        assert (await one.answer()).status == 200
        await worker.has(2)
        worker.go()
        assert (await other.answer()).status == 200
        one.close()
        other.close()

    play(scene, worker.script, limiter=limits(1, 5))


def test_waiters_are_told_when_the_grace_period_is_over() -> None:
    worker = Waiting()

    async def scene(stage: Stage) -> None:
        one, other = await call(stage), await call(stage)
        await depth_is(stage, 1)
        stage.gateway.stop()
        for each in (one, other):
            answer = await each.answer()
            assert answer.status == 503
            assert error_of(answer)["code"] == "gateway_shutting_down"
            each.close()
        await eventually(lambda: worker.cut == 1)
        assert len(worker.bodies) == 1

    play(scene, worker.script, limiter=limits(1, 5))


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

    play(scene, limiter=limits(1, 0))
