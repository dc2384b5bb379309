"""Forms whose file goes on while it comes in: what decides, and what still may."""

from __future__ import annotations

import asyncio

import pytest

from smgproxy.core.exchange import Exchange
from tests.e2e.forms import (
    LARGE,
    MODEL,
    PATH,
    ask,
    delimiter_of,
    form,
    request,
    was_passed,
    was_sent,
)
from tests.e2e.multiplexed import MODEL as H2_MODEL
from tests.e2e.multiplexed import play_http2, still
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.uploads import UploadedTo, UploadWorker, play_upload
from tests.fakes.client import Client
from tests.fakes.http2_worker import H2Worker, Stream
from tests.fakes.worker import Received

# More than a read, less than the file: what a client has sent so far.
HALF = 400_000


async def take(connection: UploadedTo, received: Received) -> None:
    """Answer behind the form."""
    while piece := await connection.chunk_in():
        received.body += piece
    await connection.answer(b'{"text":"hi"}')


async def begin(stage: Stage, body: bytes, headers: str = "") -> Client:
    """A client that has sent half of a form."""
    client = await stage.client()
    await client.send(request(body[:HALF], headers=headers, size=len(body)))
    return client


async def running(stage: Stage) -> list[Exchange]:
    await eventually(lambda: stage.gateway.dispatcher.running)
    return list(stage.gateway.dispatcher.running)


def test_a_file_behind_its_model_goes_on_before_the_form_is_complete() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        body = form(MODEL, ("file", LARGE), ("prompt", b"Hm."), ("stream", b"0"))
        client = await begin(stage, body)
        await eventually(lambda: worker.received)
        [received] = worker.received
        await eventually(lambda: len(received.body) > HALF - 1000)
        assert received.path == PATH
        assert received.get("transfer-encoding") == "chunked"
        assert stage.gateway.registry.all()[0].load == 1
        await client.send(body[HALF:])
        answer = await client.answer()
        assert (answer.status, answer.body) == (200, b'{"text":"hi"}')
        assert answer.get("x-smg-routed-worker-id") == worker.url
        assert was_passed(
            *(received, ("file", LARGE), MODEL),
            *(("prompt", b"Hm."), ("stream", b"false")),
        )
        assert stage.responses(PATH) == {(200, ""): 1}
        stats = stage.gateway.router_stats
        assert stats.requests == {("m", "audio_transcriptions", False): 1}
        client.close()

    play_upload(scene, take)


def test_fields_before_the_file_go_on_behind_it_as_the_last_of_each_name_stands() -> (
    None
):
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        fields: list[tuple[str, bytes]] = [
            *(("temperature", b" 1 "), ("language", b"de"), ("model", b" whisper ")),
            *(("timestamp_granularities[]", b"word"), ("file", LARGE)),
            *(("timestamp_granularities", b"segment"), ("language", b"en")),
            *(MODEL, ("unknown", b"x"), ("temperature", b".50")),
        ]
        assert (await client.ask(ask(*fields))).status == 200
        assert was_passed(
            *(worker.received[0], ("file", LARGE), MODEL, ("language", b"en")),
            *(("temperature", b"0.5"), ("timestamp_granularities[]", b"word")),
            ("timestamp_granularities[]", b"segment"),
        )
        client.close()

    play_upload(scene, take, aliases={"model_aliases": ("whisper=m",)})


def test_a_name_and_a_type_of_the_file_go_on() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        part = (
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
            b"Content-Type: audio/wav\r\n\r\n%b\r\n--b--" % LARGE
        )
        assert (await client.ask(request(form(MODEL, end=part)))).status == 200
        [received] = worker.received
        start = delimiter_of(received) + part[3:].partition(b"\r\n\r\n")[0]
        assert received.body.startswith(start + b"\r\n\r\n" + LARGE[:100])
        client.close()

    play_upload(scene, take)


def test_a_file_of_one_read_is_sent_whole() -> None:
    sound = LARGE[: 64 * 1024]

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        body = form(MODEL, ("file", sound), ("prompt", b"x" * 300))
        await client.send(request(body[:-100], size=len(body)))
        [exchange] = await running(stage)
        await eventually(lambda: exchange.request.delivered == len(body) - 100)
        assert stage.worker.accepted == 0
        await client.send(body[-100:])
        assert (await client.answer()).status == 200
        fields = (("file", sound), MODEL, ("prompt", b"x" * 300))
        assert was_sent(stage.worker.received[0], *fields)
        client.close()

    play(scene)


def test_a_chunked_form_goes_on_too() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        head = request(b"").partition(b"Content-Length")[0]
        await client.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
        body = form(MODEL, ("file", LARGE))
        for at in range(0, len(body), 100_001):
            piece = body[at : at + 100_001]
            await client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        await eventually(lambda: worker.received)
        await client.send(b"0\r\n\r\n")
        assert (await client.answer()).status == 200
        assert was_passed(worker.received[0], ("file", LARGE), MODEL)
        client.close()

    play_upload(scene, take)


def test_a_worker_that_does_not_read_holds_its_client() -> None:
    is_over = asyncio.Event()

    async def script(connection: UploadedTo, received: Received) -> None:
        await is_over.wait()
        connection.is_closed = True

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await stage.client()
        body = form(MODEL, ("file", b"x" * (32 << 20)), end=b"")
        client.writer.write(request(body, size=2 * len(body)))
        [exchange] = await running(stage)
        await eventually(lambda: exchange.request.is_held and worker.received)
        # What the sockets on the way and the worker's reader took.
        assert await still(lambda: exchange.request.delivered) < 16 << 20
        client.reset()
        is_over.set()

    play_upload(scene, script)


def test_a_transcript_may_begin_within_the_upload() -> None:
    async def script(connection: UploadedTo, received: Received) -> None:
        await connection.chunk_in()
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        assert (await connection.body_in())[1]
        await connection.chunk(b"data: 2\n\n")
        await connection.end_stream()

    async def scene(stage: Stage, worker: UploadWorker) -> None:
        body = form(MODEL, ("stream", b"1"), ("file", LARGE))
        client = await begin(stage, body)
        await client.reader.readuntil(b"data: 1\n\n")
        await client.send(body[HALF:])
        rest = await client.reader.readuntil(b"0\r\n\r\n")
        assert b"data: 2\n\n" in rest
        client.close()

    play_upload(scene, script)


# -- what still may decide -------------------------------------------------------------


@pytest.mark.parametrize(
    ("behind", "status", "said"),
    [
        ((), 404, b"model_not_found"),
        ((("stream", b"yes"),), 400, b"Invalid stream"),
        ((MODEL,), 200, b""),
    ],
)
def test_a_model_that_nobody_serves_is_told_when_the_form_is_complete(
    behind: tuple[tuple[str, bytes], ...], status: int, said: bytes
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        fields = (("model", b"nobody"), ("file", LARGE), *behind)
        answer = await client.ask(ask(*fields))
        assert answer.status == status
        assert said in answer.body
        assert len(stage.worker.received) == (status == 200)
        client.close()

    play(scene)


def test_a_fault_before_the_file_may_still_be_mended_behind_it() -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        fields = (MODEL, ("temperature", b"9"), ("file", LARGE), ("temperature", b"1"))
        assert (await client.ask(ask(*fields))).status == 200
        assert was_sent(
            stage.worker.received[0], ("file", LARGE), MODEL, ("temperature", b"1")
        )
        client.close()

    play(scene)


def test_a_form_goes_on_to_a_worker_over_http2() -> None:
    model = ("model", H2_MODEL.encode())

    async def script(stream: Stream, received: Received) -> None:
        await stream.peer.until(lambda: stream.is_ended)
        await stream.answer(b"{}")

    async def scene(stage: Stage, worker: H2Worker) -> None:
        worker.begins_at_head = True
        body = form(model, ("file", LARGE), ("language", b"de"))
        client = await begin(stage, body)
        await eventually(lambda: worker.received and worker.received[0].body)
        await client.send(body[HALF:])
        assert (await client.answer()).status == 200
        assert was_passed(
            worker.received[0], ("file", LARGE), model, ("language", b"de")
        )
        client.close()

    play_http2(scene, script)


FILE = ("file", LARGE)
SMALL = ("file", b"RIFF")
STREAM = ("stream", b"True")


@pytest.mark.parametrize(
    ("fields", "is_stream"),
    [
        ((MODEL, SMALL, STREAM), True),
        ((MODEL, SMALL), False),
        ((MODEL, STREAM, FILE), True),
        ((MODEL, FILE, STREAM), True),
        ((MODEL, STREAM, FILE, ("stream", b"0")), False),
        ((FILE, MODEL, STREAM), True),
    ],
    ids=["small", "plain", "before", "behind", "taken-back", "spooled"],
)
def test_a_transcript_that_is_to_be_streamed_is_counted_so(
    fields: tuple[tuple[str, bytes], ...], is_stream: bool
) -> None:
    async def scene(stage: Stage) -> None:
        client = await stage.client()
        assert (await client.ask(ask(*fields))).status == 200
        requests = stage.gateway.router_stats.requests
        assert requests == {("m", "audio_transcriptions", is_stream): 1}
        client.close()

    play(scene)


def test_a_passed_form_that_breaks_off_is_counted_as_far_as_it_was_known() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await begin(stage, form(MODEL, STREAM, FILE))
        await eventually(lambda: worker.received)
        client.close()
        requests = stage.gateway.router_stats.requests
        await eventually(lambda: requests)
        assert requests == {("m", "audio_transcriptions", True): 1}

    play_upload(scene, take)


def test_a_form_is_kept_until_it_is_complete_for_workers_that_want_its_length() -> None:
    async def scene(stage: Stage) -> None:
        body = form(MODEL, FILE, ("prompt", b"Hm."))
        client = await begin(stage, body)
        [exchange] = await running(stage)
        await eventually(lambda: exchange.request.delivered > HALF - 1000)
        assert not stage.worker.accepted
        await client.send(body[HALF:])
        assert (await client.answer()).status == 200
        [received] = stage.worker.received
        assert was_sent(received, FILE, MODEL, ("prompt", b"Hm."))
        client.close()

    play(scene, dispatch={"spool_transcriptions": True})
