"""/v1/audio/transcriptions from end to end: forms large and small, and every error."""

from __future__ import annotations

import asyncio

import pytest

from smgproxy.admission.keys import Keys, Secret
from smgproxy.core.exchange import Verdict
from smgproxy.dispatch.spool import MEMORY_BYTES, Spool
from smgproxy.fleet.worker import WorkerState
from tests.e2e.asking import check_bad_text, check_envelope
from tests.e2e.forms import (
    LARGE,
    MODEL,
    PATH,
    ask,
    form,
    request,
    was_passed,
    was_sent,
)
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.uploads import UploadedTo, UploadWorker, play_upload
from tests.fakes.client import Answer
from tests.fakes.worker import Connection, Received

SMALL = ask(("file", b"sound"), MODEL)


async def transcribe(connection: Connection, received: Received) -> None:
    await connection.answer(
        b'{"text":"hi"}', 200, "x-own: 1\r\nx-smg-error-code: n\r\n"
    )


# -- what a worker gets --------------------------------------------------------------


@pytest.mark.parametrize("sound", [b"sound", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_form_is_made_anew_wherever_its_file_stood(
    sound: bytes, is_last: bool
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        fields = [MODEL, ("x", b"y"), ("stream", b"0"), ("temperature", b"1e-1")]
        fields.insert(len(fields) if is_last else 0, ("file", sound))
        answer = await client.ask(ask(*fields))
        assert (answer.status, answer.body) == (200, b'{"text":"hi"}')
        assert answer.get("content-type") == "application/json"
        assert answer.get("x-own") == "1"
        assert answer.get("x-smg-error-code") is None
        assert answer.get("x-smg-routed-worker-id") == stage.worker.url
        assert len(answer.all("x-request-id")) == 1
        [received] = stage.worker.received
        assert received.path == PATH
        is_passed = is_last and sound is LARGE
        assert (was_passed if is_passed else was_sent)(
            received,
            *(("file", sound), MODEL, ("temperature", b"0.1"), ("stream", b"false")),
        )
        assert stage.responses(PATH) == {(200, ""): 1}
        stats = stage.gateway.router_stats
        assert list(stats.requests) == [("m", "audio_transcriptions", False)]
        client.close()

    play(scene, transcribe)


def test_headers_are_the_allow_lists_and_the_model_the_canonical_one() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        headers = "Authorization: Basic x\r\nCookie: c\r\nX-Request-ID: abc\r\n"
        fields = (("file", b"s"), ("model", b" whisper "))
        answer = await client.ask(ask(*fields, headers=headers))
        assert answer.status == 200
        [received] = stage.worker.received
        names = [name for name, _ in received.headers]
        assert names == [
            *("content-type", "content-length", "authorization", "x-request-id"),
            *("accept", "host"),
        ]
        assert received.get("authorization") == "Basic x"
        assert was_sent(received, ("file", b"s"), MODEL)
        client.close()

    play(scene, transcribe, aliases={"model_aliases": ("whisper=m",)})


def test_a_chunked_form_byte_by_byte() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        head = SMALL.partition(b"Content-Length")[0]
        await client.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for byte in form(("file", b"sound"), MODEL):
            await client.send(b"1\r\n%c\r\n" % byte)
        await client.send(b"0\r\n\r\n")
        assert (await client.answer()).status == 200
        assert was_sent(stage.worker.received[0], ("file", b"sound"), MODEL)
        client.close()

    play(scene, transcribe)


def test_nothing_of_a_file_without_a_model_goes_on_before_the_form_is_complete() -> (
    None
):
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        body = form(("file", LARGE), MODEL)
        await client.send(request(body[:-1], size=len(body)))
        await eventually(lambda: stage.gateway.dispatcher.running)
        [exchange] = stage.gateway.dispatcher.running
        await eventually(lambda: exchange.request.delivered == len(body) - 1)
        assert stage.worker.accepted == 0
        await client.send(body[-1:])
        assert (await client.answer()).status == 200
        client.close()

    play(scene, transcribe)


def test_the_rest_of_a_form_may_come_behind_its_cancellation() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        body = form(("file", b"x" * 200_000), MODEL)
        await client.send(request(body[:100_000], size=len(body)))
        await eventually(lambda: stage.gateway.dispatcher.running)
        stage.gateway.dispatcher.cancel_all(Verdict.DRAINED)
        await client.send(body[100_000:])
        answer = await client.answer()
        check_envelope(answer, 503, "gateway_shutting_down", retry_after="1")
        assert stage.worker.accepted == 0
        client.close()

    play(scene, transcribe)


# -- what a client gets ---------------------------------------------------------------


def test_a_streaming_transcript_is_relayed_as_it_comes() -> None:
    go_on = asyncio.Event()

    async def script(connection: Connection, received: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await go_on.wait()
        await connection.chunk(b"data: 2\n\n")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(("file", LARGE), MODEL, ("stream", b"true")))
        await client.reader.readuntil(b"data: 1\n\n")
        assert stage.records[0].load == 1
        go_on.set()
        rest = await client.reader.readuntil(b"0\r\n\r\n")
        assert b"data: 2\n\n" in rest and b"[DONE]" not in rest
        client.close()

    play(scene, script)


def test_events_that_nobody_asked_for_are_relayed_all_the_same() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await connection.end_stream()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(SMALL)
        assert (answer.status, answer.body) == (200, b"data: 1\n\n")
        assert answer.get("content-type") == "text/event-stream"
        client.close()

    play(scene, script)


@pytest.mark.parametrize("sound", [b"sound", LARGE], ids=["small", "large"])
@pytest.mark.parametrize("status", [429, 500, 503, 307])
def test_a_workers_error_is_relayed_and_not_tried_again(
    status: int, sound: bytes
) -> None:
    async def script(connection: Connection, received: Received) -> None:
        extra = "retry-after: 7\r\nx-smg-error-code: no\r\n"
        await connection.answer(b"why", status, extra, "text")

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answer = await client.ask(ask(("file", sound), MODEL))
        assert (answer.status, answer.body) == (status, b"why")
        assert answer.get("content-type") == "text/plain"
        assert answer.get("retry-after") == "7"
        assert answer.get("x-smg-error-code") is None
        assert len(stage.worker.received) == 1
        record = stage.records[0]
        assert record.backend_errors == (status in (500, 503))
        codes = record.breaker.settings.failure_status_codes
        assert record.breaker.failures == (status in codes)
        client.close()

    play(scene, script, retries={"disable_retries": False})


def test_a_client_that_leaves_stops_its_transcription() -> None:
    async def script(connection: Connection, received: Received) -> None:
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(ask(("file", LARGE), MODEL))
        await eventually(lambda: stage.worker.received)
        client.close()
        await eventually(lambda: not stage.worker.open)

    play(scene, script)


def test_a_worker_that_answers_within_the_upload_is_heard() -> None:
    async def script(connection: UploadedTo, received: Received) -> None:
        await connection.answer(b"full", 413, "connection: close\r\n", "text")
        connection.close()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        answer = await client.ask(ask(("file", LARGE * 4), MODEL))
        assert (answer.status, answer.body) == (413, b"full")
        client.close()

    play_upload(scene, script)


@pytest.mark.parametrize("sound", [b"sound", LARGE], ids=["small", "large"])
def test_a_worker_that_is_not_there(sound: bytes) -> None:
    async def scene(stage: Stage) -> None:
        await stage.worker.stop()
        client = await stage.client()
        answer = await client.ask(ask(("file", sound), MODEL))
        check_envelope(answer, 500, "call_upstream_connection_failed")
        assert stage.records[0].backend_errors == 1
        client.close()

    play(scene)


# -- errors ---------------------------------------------------------------------------


async def refused(stage: Stage, sent: bytes) -> Answer:
    client = await stage.client()
    try:
        return await client.ask(sent)
    finally:
        client.close()


ANY = ("file", b"s"), ("model", b"nobody")
UNTYPED = request(form(*ANY)).replace(b"Content-Type", b"X-Type")
BAD_FORMS = [
    (request(form(*ANY), "application/json"), "multipart/form-data"),
    (request(form(*ANY), "application/x-www-form-urlencoded"), "multipart/form-data"),
    (request(form(*ANY), "multipart/form-data"), "boundary"),
    (UNTYPED, "multipart/form-data"),
    (request(form(*ANY), "multipart/form-data; boundary=c"), "next form field"),
    (request(b""), "next form field"),
    (request(form(*ANY, end=b"")), "'model'"),
    (request(form(("file", b"s"), end=b"")[:-2]), "'file'"),
    (ask(MODEL), "'file'"),
    (ask(("file", b""), MODEL), "empty"),
    (ask(("file", b"s")), "'model'"),
    (ask(("file", b"s"), ("model", b" ")), "'model'"),
    (ask(*ANY, ("temperature", b"warm")), "not a number"),
    (ask(*ANY, ("temperature", b"")), "not empty"),
    (ask(*ANY, ("temperature", b"1.5")), "'1.5' is not between 0.0 and 1.0"),
    (ask(*ANY, ("stream", b"yes")), "'yes', expected true, false, 1 or 0"),
]


@pytest.mark.parametrize(("sent", "why"), BAD_FORMS)
def test_a_bad_form_is_told_in_plain_text_before_anyone_is_chosen(
    sent: bytes, why: str
) -> None:
    async def scene(stage: Stage) -> None:
        answer = await refused(stage, sent)
        assert why in check_bad_text(answer)
        assert stage.worker.accepted == 0
        assert not stage.gateway.router_stats.requests, "it was never routed"
        await eventually(lambda: stage.gateway.http.in_flight == 0)
        assert stage.responses(PATH) == {(400, ""): 1}

    play(scene)


def test_a_form_is_refused_at_its_first_fault() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request(b"--b\r\nbad header\r\n", size=1_000_000))
        answer = await client.answer()
        assert check_bad_text(answer).startswith("Failed to read")
        client.close()

    play(scene)


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (ask(*ANY), 404, "model_not_found"),
        (SMALL.replace(PATH.encode(), PATH.encode() + b"?model=x"), 503, ""),
        (ask(("file", LARGE), MODEL), 413, "request_body_too_large"),
        (SMALL.replace(b"POST", b"PUT"), 405, "method_not_allowed"),
    ],
)
def test_every_other_error_is_an_envelope(sent: bytes, status: int, code: str) -> None:
    code = code or "no_available_workers"

    async def scene(stage: Stage) -> None:
        stage.gateway.registry.set_state(stage.records[0], WorkerState.NOT_READY)
        answer = await refused(stage, sent)
        retry_after = "1" if status == 503 else None
        check_envelope(answer, status, code, retry_after=retry_after)
        assert stage.worker.received == []

    play(scene, dispatch={"max_payload_size": MEMORY_BYTES})


def test_a_chunked_form_may_not_outgrow_the_payload_limit() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        head = SMALL.partition(b"Content-Length")[0]
        body = form(MODEL, ("file", b"x" * 2000))
        await client.send(
            head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n" % (len(body), body)
        )
        answer = await client.answer()
        check_envelope(answer, 413, "request_body_too_large")
        client.close()

    play(scene, dispatch={"max_payload_size": 1000})


def test_a_key_is_asked_for_before_the_form_is_read() -> None:
    async def scene(stage: Stage) -> None:
        answer = await refused(stage, request(b"no form", "text/plain"))
        assert (answer.status, answer.body) == (401, b"")
        assert answer.get("www-authenticate")

    play(scene, keys=Keys([Secret("k")]))


def test_a_disk_that_is_full_is_an_error_of_the_gateways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write(self: Spool, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Spool, "write", write)

    async def scene(stage: Stage) -> None:
        answer = await refused(stage, SMALL)
        assert "No space left" in check_envelope(answer, 500, "internal_error")

    play(scene)
