"""Forms that break, or are refused, while their file goes on to a worker."""

from __future__ import annotations

import asyncio

import pytest

from smgproxy.admission.budget_rules import Policy, Quota, TenantRules
from smgproxy.core.exchange import Verdict
from tests.e2e.asking import check_bad_text, check_envelope
from tests.e2e.forms import LARGE, MODEL, PATH, form, request
from tests.e2e.stage import Stage, eventually
from tests.e2e.uploads import UploadedTo, UploadWorker, play_upload
from tests.fakes.client import Client
from tests.fakes.worker import Received

HALF = 400_000
WHOLE = form(MODEL, ("file", LARGE))


class Ends:
    """A worker that takes what it gets; whether that had an end, each time."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    async def script(self, connection: UploadedTo, received: Received) -> None:
        received.body, is_whole = await connection.body_in()
        self.seen.append(is_whole)
        if is_whole:
            await connection.answer(b"{}")
        else:
            connection.is_closed = True


async def half(stage: Stage, worker: UploadWorker, body: bytes = WHOLE) -> Client:
    """A client that has sent half of a form, which goes on."""
    client = await stage.client()
    await client.send(request(body[:HALF], size=len(body)))
    await eventually(lambda: worker.received)
    return client


async def check_blameless(stage: Stage, ends: Ends) -> None:
    """The worker was left with half a form, and nothing was charged to it."""
    await eventually(lambda: ends.seen == [False])
    await eventually(lambda: not stage.gateway.dispatcher.running)
    record = stage.records[0]
    assert (record.backend_errors, record.timeouts, record.load) == (0, 0, 0)
    assert record.breaker.failures == 0


LATE_FAULTS = [
    ((("temperature", b"2"),), "Invalid temperature"),
    ((("temperature", b""),), "Invalid temperature"),
    ((("stream", b"yes"),), "Invalid stream"),
    ((("model", b" "),), "'model'"),
    ((("model", b"other"),), "'model' came twice"),
    ((("file", b"s"),), "'file' came twice"),
]


@pytest.mark.parametrize(("behind", "why"), LATE_FAULTS)
def test_a_fault_behind_the_file_is_told_and_the_worker_is_left_alone(
    behind: tuple[tuple[str, bytes], ...], why: str
) -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        body = form(MODEL, ("file", LARGE), *behind)
        client = await half(stage, worker, body)
        await client.send(body[HALF:])
        answer = await client.answer()
        assert why in check_bad_text(answer)
        await check_blameless(stage, ends)
        assert stage.responses(PATH) == {(400, ""): 1}
        client.close()

    play_upload(scene, ends.script)


@pytest.mark.parametrize("end", [b"", b"--b\r\nbad header\r\n", b"--b-\r\n"])
def test_a_form_without_an_end_is_told_so(end: bytes) -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        body = form(MODEL, ("file", LARGE), end=end)
        client = await half(stage, worker, body)
        await client.send(body[HALF:])
        answer = await client.answer()
        assert check_bad_text(answer).startswith("Failed to read")
        await check_blameless(stage, ends)
        client.close()

    play_upload(scene, ends.script)


def test_a_chunked_form_that_outgrows_the_limit_on_its_way() -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        head = request(b"").partition(b"Content-Length")[0]
        await client.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for at in range(0, 1_100_000, 100_000):
            await client.send(b"186a0\r\n%b\r\n" % WHOLE[at : at + 100_000])
        answer = await client.answer()
        check_envelope(answer, 413, "request_body_too_large")
        assert worker.received
        await check_blameless(stage, ends)
        client.close()

    play_upload(scene, ends.script, dispatch={"max_payload_size": 1_000_000})


def test_a_client_that_stops_sending_gets_408() -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        answer = await client.answer()
        check_envelope(answer, 408, "request_body_stalled")
        await check_blameless(stage, ends)
        client.close()

    play_upload(scene, ends.script, clients={"stream_body_stall_timeout_secs": 1})


@pytest.mark.parametrize("how", ["finish", "reset"])
def test_a_client_that_leaves_leaves_half_a_form(how: str) -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        getattr(client, how)()
        await check_blameless(stage, ends)
        counted = {(400, "request_body_aborted"): 1}
        await eventually(lambda: stage.responses(PATH) == counted)
        assert stage.gateway.router_stats.upstream == counted
        client.close()

    play_upload(scene, ends.script)


def test_a_client_that_leaves_behind_its_form_is_a_client_that_left() -> None:
    is_waiting = asyncio.Event()

    async def script(connection: UploadedTo, received: Received) -> None:
        assert (await connection.body_in())[1]
        is_waiting.set()
        await connection.until_gone()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        await client.send(WHOLE[HALF:])
        await is_waiting.wait()
        client.reset()
        gone = {(499, "client_closed_request"): 1}
        await eventually(lambda: stage.responses(PATH) == gone)

    play_upload(scene, script)


def test_a_worker_that_answers_early_is_heard_at_once() -> None:
    async def script(connection: UploadedTo, received: Received) -> None:
        await connection.chunk_in()
        await connection.answer(b'{"error":"codec"}', 415)
        await connection.until_gone()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        answer = await client.answer()
        assert (answer.status, answer.body) == (415, b'{"error":"codec"}')
        await eventually(lambda: not worker.open)
        client.close()

    play_upload(scene, script)


def test_a_worker_that_dies_within_the_form_is_charged_and_not_tried_again() -> None:
    async def script(connection: UploadedTo, received: Received) -> None:
        await connection.chunk_in()
        connection.reset()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        answer = await client.answer()
        check_envelope(answer, 500, "call_upstream_request_error")
        assert worker.accepted == 1
        assert stage.records[0].backend_errors == 1
        client.close()

    play_upload(scene, script, retries={"disable_retries": False})


def test_a_form_on_its_way_is_answered_by_a_drain_that_hurries() -> None:
    ends = Ends()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        stage.gateway.dispatcher.cancel_all(Verdict.DRAINED)
        answer = await client.answer()
        check_envelope(answer, 503, "gateway_shutting_down", retry_after="1")
        await check_blameless(stage, ends)
        client.close()

    play_upload(scene, ends.script)


def test_a_tenant_without_budget_is_refused_before_its_file_is_sent() -> None:
    async def script(connection: UploadedTo, received: Received) -> None:
        assert (await connection.body_in())[1]
        await connection.answer(b'{"usage":{"prompt_tokens":7}}')

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await half(stage, worker)
        await client.send(WHOLE[HALF:])
        assert (await client.answer()).status == 200
        client.close()
        for sent in (WHOLE[:HALF], WHOLE):
            client = await stage.client()
            await client.send(request(sent, size=len(WHOLE)))
            answer = await client.answer()
            told = answer.get("retry-after")
            check_envelope(answer, 429, "tenant_rate_limit_exceeded", retry_after=told)
            client.close()
        assert len(worker.received) == 1

    quota = TenantRules(Policy(Quota(1000, 1)))
    play_upload(scene, script, tenant_rules=quota)
