"""Workers that speak HTTP/2: one connection, many streams, and what ends them."""

from __future__ import annotations

import asyncio

from tests.e2e.asking import error_of
from tests.e2e.multiplexed import (
    BODY,
    CANCEL,
    INTERNAL_ERROR,
    REFUSED_STREAM,
    STREAMED,
    ask,
    ask_all,
    begin_stream,
    play_http2,
    still,
)
from tests.e2e.stage import Stage, eventually
from tests.fakes.client import post
from tests.fakes.http2_worker import H2Worker, Stream
from tests.fakes.worker import Received, say_ok


def test_requests_share_a_connection() -> None:
    async def scene(stage: Stage, worker: H2Worker) -> None:
        answers = await ask_all(stage, 8)
        assert {(each.status, each.body) for each in answers} == {(200, b'{"ok":true}')}
        assert worker.accepted == 1
        assert stage.gateway.upstream.counts()[worker.url] == (1, 0)

    play_http2(scene)


def test_the_head_is_the_contracts_in_its_order() -> None:
    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        headers = "Authorization: Bearer k\r\nCookie: c\r\nX-Request-ID: r-1\r\n"
        await client.ask(post(BODY, headers=headers))
        client.close()
        assert worker.received[0].headers == [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", f"127.0.0.1:{worker.port}"),
            (":path", "/v1/chat/completions"),
            ("content-type", "application/json"),
            ("content-length", str(len(BODY))),
            ("authorization", "Bearer k"),
            ("x-request-id", "r-1"),
            ("accept", "*/*"),
        ]
        assert worker.received[0].body == BODY

    play_http2(scene)


def test_events_are_relayed_as_they_come() -> None:
    gate = asyncio.Event()

    async def script(stream: Stream, request: Received) -> None:
        await stream.start_stream()
        await stream.chunk(b"data: 1\n\n")
        await stream.chunk(b"")
        await gate.wait()
        await stream.chunk(b"data: [DONE]\n\n", end=True)

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await begin_stream(stage)
        assert await client.chunk() == b"data: 1\n\n"
        gate.set()
        assert await client.chunk() == b"data: [DONE]\n\n"
        assert await client.chunk() == b""
        client.close()

    play_http2(scene, script)


def test_a_client_that_leaves_resets_its_stream_and_no_other() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.start_stream()
        await stream.chunk(b"data: 1\n\n")
        await stream.until_gone()

    async def scene(stage: Stage, worker: H2Worker) -> None:
        one, other = await begin_stream(stage), await begin_stream(stage)
        one.close()
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert worker.peer.streams[3].reset_code is None
        assert worker.accepted == 1
        other.close()
        await eventually(lambda: worker.peer.streams[3].reset_code == CANCEL)
        assert stage.gateway.upstream.counts()[worker.url] == (1, 0)

    play_http2(scene, script)


def test_a_client_that_leaves_before_the_head_resets_its_stream() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.until_gone()

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        await client.send(post(BODY))
        await eventually(lambda: worker.received)
        client.close()
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert not worker.peer.is_lost

    play_http2(scene, script)


def test_bodies_larger_than_every_window_arrive_whole_both_ways() -> None:
    big = BODY.replace(b"hi", b"x" * 3_000_000)

    async def script(stream: Stream, request: Received) -> None:
        await stream.answer(request.body)

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answers = await asyncio.gather(*[ask(stage, big) for _ in range(3)])
        assert [each.body == big for each in answers] == [True] * 3
        assert worker.accepted == 1

    play_http2(scene, script)


def test_a_slow_reader_holds_its_own_stream_only() -> None:
    sent = 0

    async def script(stream: Stream, request: Received) -> None:
        nonlocal sent
        await stream.start_stream()
        if len(stream.peer.streams) > 1:
            await stream.chunk(b"data: 2\n\n", end=True)
            return
        for _ in range(1000):
            await stream.chunk(b"x" * 32768)
            sent += 1

    async def scene(stage: Stage, worker: H2Worker) -> None:
        slow = await stage.client(8192)
        await slow.send(post(STREAMED))
        await slow.head()
        stream = worker.peer.streams[1]
        await eventually(lambda: sent > 10)
        await still(lambda: sent)
        assert not stream.is_roomy()
        seen = sent
        quick = await begin_stream(stage)
        assert await quick.chunk() == b"data: 2\n\n"
        quick.close()
        assert sent == seen < 300
        slow.reset()
        await eventually(lambda: stream.reset_code == CANCEL)

    play_http2(scene, script)


# -- what the worker does --------------------------------------------------------------


def test_a_refused_stream_is_sent_again_unnoticed() -> None:
    async def script(stream: Stream, request: Received) -> None:
        if len(stream.peer.worker.received) == 1:
            await stream.reset(REFUSED_STREAM)
        else:
            await say_ok(stream, request)  # type: ignore[arg-type]

    async def scene(stage: Stage, worker: H2Worker) -> None:
        assert (await ask(stage)).status == 200
        assert stage.gateway.upstream.resends == 1
        assert len(worker.received) == 2

    play_http2(scene, script)


def test_a_stream_refused_twice_is_an_error() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.reset(REFUSED_STREAM)

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answer = await ask(stage)
        assert answer.status == 500
        assert error_of(answer)["code"] == "call_upstream_request_error"
        assert len(worker.received) == 2

    play_http2(scene, script)


def test_requests_behind_a_goaway_go_over_a_new_connection_unnoticed() -> None:
    """The first is served; those above the last stream were not looked at."""

    async def script(stream: Stream, request: Received) -> None:
        peer = stream.peer
        if peer is not peer.worker.peers[0]:
            await say_ok(stream, request)  # type: ignore[arg-type]
        elif stream.number == 1:
            await peer.until(lambda: len(peer.streams) == 8)
            last = b"\0\0\0\x01" + bytes(4)
            await peer.raw(b"\0\0\x08\x07\0\0\0\0\0" + last)
            await say_ok(stream, request)  # type: ignore[arg-type]

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answers = await ask_all(stage, 8)
        assert [each.status for each in answers] == [200] * 8
        assert worker.accepted == 2
        assert stage.gateway.upstream.resends == 7
        await eventually(lambda: worker.peers[0].is_lost)
        assert stage.gateway.upstream.counts()[worker.url] == (1, 0)

    play_http2(scene, script)


def test_a_request_that_no_connection_looks_at_is_sent_a_few_times() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.peer.raw(b"\0\0\x08\x07\0\0\0\0\0" + bytes(8))

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answer = await ask(stage)
        assert error_of(answer)["code"] == "call_upstream_request_error"
        assert worker.accepted == 6

    play_http2(scene, script)


def test_a_goaway_while_idle_costs_nobody_anything() -> None:
    async def scene(stage: Stage, worker: H2Worker) -> None:
        assert (await ask(stage)).status == 200
        first = worker.peer
        first.h2.close_connection()
        await first.flush()
        await eventually(lambda: first.is_lost)
        assert (await ask(stage)).status == 200
        assert (worker.accepted, stage.gateway.upstream.resends) == (2, 0)

    play_http2(scene)


def test_a_connection_lost_with_many_streams_is_replaced_by_one() -> None:
    async def script(stream: Stream, request: Received) -> None:
        peer = stream.peer
        if peer is not peer.worker.peers[0]:
            await say_ok(stream, request)  # type: ignore[arg-type]
        elif len(peer.streams) == 20:
            peer.cut()

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answers = await ask_all(stage, 20)
        assert [each.status for each in answers] == [200] * 20
        assert worker.accepted == 2
        assert stage.gateway.upstream.resends == 20

    play_http2(scene, script)


def test_a_stream_that_is_reset_midway_ends_with_the_error_event() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.start_stream()
        await stream.chunk(b"data: 1\n\n")
        await stream.reset(INTERNAL_ERROR)

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answer = await ask(stage, STREAMED)
        assert answer.is_whole
        assert b'"Stream error: stream reset, code 2"' in answer.body
        assert answer.body.endswith(b"data: [DONE]\n\n")
        assert not worker.peer.is_lost
        assert stage.records[-1].backend_errors == 1

    play_http2(scene, script)


def test_a_body_that_is_not_as_long_as_announced_is_a_broken_reply() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.start(200, ("content-length", "5"))
        await stream.chunk(b"1234", end=True)

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answer = await ask(stage)
        assert answer.status == 500
        assert error_of(answer)["code"] == "read_response_body_failed"
        assert not worker.peer.is_lost

    play_http2(scene, script)


def test_a_worker_that_does_not_answer_in_time_loses_its_stream_only() -> None:
    async def script(stream: Stream, request: Received) -> None:
        if stream.number > 1:
            await say_ok(stream, request)  # type: ignore[arg-type]

    async def scene(stage: Stage, worker: H2Worker) -> None:
        answer = await ask(stage)
        assert answer.status == 504
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert (await ask(stage)).status == 200
        assert worker.accepted == 1

    play_http2(scene, script, {"timeout_secs": 0.3})


def test_more_streams_than_the_worker_takes_get_a_second_connection() -> None:
    async def script(stream: Stream, request: Received) -> None:
        workers = stream.peer.worker
        while len(workers.received) < 5:
            await asyncio.sleep(0.001)
        await say_ok(stream, request)  # type: ignore[arg-type]

    async def scene(stage: Stage, worker: H2Worker) -> None:
        worker.settings = {3: 3}
        told = stage.gateway.upstream.fetch
        await told(stage.records[-1], "GET", "/health", timeout_secs=5)
        answers = await ask_all(stage, 5)
        assert [each.status for each in answers] == [200] * 5
        assert worker.accepted == 2
        assert max(len(peer.streams) for peer in worker.peers) == 4

    play_http2(scene, script)


def test_an_idle_connection_says_goodbye() -> None:
    async def scene(stage: Stage, worker: H2Worker) -> None:
        await ask(stage)
        await eventually(lambda: worker.peer.is_lost)
        assert worker.peer.has_goodbye
        assert stage.gateway.upstream.counts()[worker.url] == (0, 0)

    play_http2(scene, pool={"pool_idle_timeout_secs": 0.3})


def test_a_removed_worker_finishes_its_streams_and_is_let_go() -> None:
    gate = asyncio.Event()

    async def script(stream: Stream, request: Received) -> None:
        await gate.wait()
        await say_ok(stream, request)  # type: ignore[arg-type]

    async def scene(stage: Stage, worker: H2Worker) -> None:
        task = asyncio.create_task(ask(stage))
        await eventually(lambda: worker.received)
        record = stage.records[-1]
        stage.gateway.registry.remove(record)
        stage.gateway.upstream.forget(record)
        gate.set()
        assert (await task).status == 200
        await eventually(lambda: worker.peer.is_lost)
        assert worker.peer.has_goodbye

    play_http2(scene, script)
