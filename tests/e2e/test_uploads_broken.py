"""Streamed uploads that fail: whose fault it is, who is told, and what is counted."""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually
from tests.e2e.uploads import (
    STREAMED,
    UploadedTo,
    UploadWorker,
    play_upload,
    upload_head,
)
from tests.fakes.worker import Received

STALLS_AFTER_1 = {"stream_body_stall_timeout_secs": 1}


class Ends:
    """A worker that takes what it gets, and how that ended."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bool]] = []

    async def script(self, connection: UploadedTo, request: Received) -> None:
        self.seen.append(await connection.body_in())
        if self.seen[-1][1]:
            await connection.answer(b"{}")
        else:
            connection.is_closed = True


def check_blameless(stage: Stage) -> None:
    """Nothing was charged to the worker."""
    record = stage.records[0]
    assert (record.backend_errors, record.timeouts, record.load) == (0, 0, 0)


@pytest.mark.parametrize("how", ["finish", "reset", "close"])
def test_a_client_that_leaves_within_its_upload_leaves_half_a_body(how: str) -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(100) + b"12345")
        await eventually(lambda: worker.received)
        getattr(client, how)()
        await eventually(lambda: ends.seen == [(b"12345", False)])
        code = "request_body_aborted"
        await eventually(lambda: stage.responses() == {(400, code): 1})
        assert stage.gateway.router_stats.upstream == {(400, code): 1}
        assert stage.gateway.upstream.counts()[worker.url] == (0, 0)
        check_blameless(stage)
        client.close()

    play_upload(scene, ends.script)


def test_a_client_that_leaves_behind_its_upload_is_a_client_that_left() -> None:
    is_waiting: list[bool] = []

    async def script(connection: UploadedTo, request: Received) -> None:
        assert await connection.body_in() == (b"12345", True)
        is_waiting.append(True)
        await connection.until_gone()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(5) + b"12345")
        await eventually(lambda: is_waiting)
        client.reset()
        gone = {(499, "client_closed_request"): 1}
        await eventually(lambda: stage.responses() == gone)
        assert not stage.gateway.router_stats.upstream
        check_blameless(stage)

    play_upload(scene, script)


def test_a_client_that_stops_sending_gets_408() -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(100) + b"12345")
        answer = await client.answer()
        error = error_of(answer)
        assert (answer.status, error["code"]) == (408, "request_body_stalled")
        assert error["message"] == (
            "No request body bytes arrived from the client for 1 seconds"
        )
        assert answer.get("x-smg-error-code") == "request_body_stalled"
        assert answer.get("x-smg-routed-worker-id") is None
        assert await client.until_closed() == b""
        await eventually(lambda: ends.seen == [(b"12345", False)])
        counted = {(408, "request_body_stalled"): 1}
        assert stage.gateway.router_stats.upstream == counted
        assert stage.responses() == counted
        check_blameless(stage)
        client.close()

    play_upload(scene, ends.script, clients=STALLS_AFTER_1)


def test_each_byte_starts_the_stall_clock_again() -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(5))
        for _ in range(5):
            await asyncio.sleep(0.4)  # 2 s in all, with a limit of 1
            await client.send(b"x")
        assert (await client.answer()).status == 200
        client.close()

    play_upload(scene, ends.script, clients=STALLS_AFTER_1)


def test_a_worker_that_does_not_read_stops_the_stall_clock() -> None:
    size = 24_000_000

    async def script(connection: UploadedTo, request: Received) -> None:
        await asyncio.sleep(2.5)  # longer than the limit, and a sweep
        assert (await connection.body_in())[1]
        await connection.answer(b"{}")

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(size))
        await client.send(b"x" * size)
        assert (await client.answer()).status == 200
        client.close()

    play_upload(scene, script, clients=STALLS_AFTER_1)


@pytest.mark.parametrize("whose", ["clients", "workers"])
def test_the_request_timeout_bounds_an_upload(whose: str) -> None:
    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.until_gone()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        body = b"12345" if whose == "workers" else b"1"
        answer = await client.ask(upload_head(5) + body)
        code = answer.get("x-smg-error-code")
        assert (answer.status, code) == (504, "call_upstream_timeout")
        assert stage.records[0].timeouts == (1 if whose == "workers" else 0)
        assert worker.accepted == 1
        client.close()

    play_upload(scene, script, timeout_secs=1)


def test_a_worker_that_dies_within_the_upload_is_charged() -> None:
    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.chunk_in()
        connection.reset()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        answer = await client.ask(upload_head(100) + b"12345")
        code = answer.get("x-smg-error-code")
        assert (answer.status, code) == (500, "call_upstream_request_error")
        assert await client.until_closed() == b""
        assert stage.records[0].backend_errors == 1
        assert worker.accepted == 1
        client.close()

    play_upload(scene, script)


def test_a_refused_connection_is_one_attempt() -> None:
    async def script(connection: UploadedTo, request: Received) -> None:
        raise AssertionError("nobody listens")

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        await worker.stop()
        client = await stage.client()
        answer = await client.ask(upload_head(5) + b"12345")
        code = answer.get("x-smg-error-code")
        assert (answer.status, code) == (500, "call_upstream_connection_failed")
        assert stage.gateway.upstream.resends == 0
        client.close()

    play_upload(scene, script)


def test_an_answer_cut_short_within_the_upload_is_an_error() -> None:
    async def script(connection: UploadedTo, request: Received) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")
        connection.close()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        answer = await client.ask(upload_head(100) + b"12345")
        code = answer.get("x-smg-error-code")
        assert (answer.status, code) == (500, "read_response_body_failed")
        assert answer.get("x-smg-routed-worker-id") == worker.url
        client.close()

    play_upload(scene, script)


def test_a_drain_that_hurries_answers_an_upload() -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        await client.send(upload_head(100) + b"12345")
        await eventually(lambda: worker.received)
        stage.gateway.stop()
        stage.gateway.stop()
        answer = await client.answer()
        code = answer.get("x-smg-error-code")
        assert (answer.status, code) == (503, "gateway_shutting_down")
        await eventually(lambda: ends.seen == [(b"12345", False)])
        client.close()

    play_upload(scene, ends.script, **STREAMED)
