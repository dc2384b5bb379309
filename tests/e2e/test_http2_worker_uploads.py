"""Bodies that stream to workers over HTTP/2."""

from __future__ import annotations

from typing import Any

from tests.e2e.asking import check_bad_text
from tests.e2e.forms import ask as transcription
from tests.e2e.multiplexed import CANCEL, MODEL, Scene, play_http2, still
from tests.e2e.stage import Stage, eventually
from tests.fakes.http2_worker import H2Worker, Stream
from tests.fakes.worker import Received

UPLOADS: dict[str, Any] = {"retries": {"disable_retries": True}}


def play_upload(scene: Scene, script: Any) -> None:
    """The same, with bodies that stream; the other worker takes none."""

    async def whole(stage: Stage, worker: H2Worker) -> None:
        stage.gateway.registry.remove(stage.records[0])
        worker.begins_at_head = True
        await scene(stage, worker)

    play_http2(whole, script, **UPLOADS)


def upload_head(length: int) -> bytes:
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: g\r\n"
        b"Content-Length: %d\r\n\r\n" % length
    )


def test_an_upload_streams_and_has_no_length() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.peer.until(lambda: stream.is_ended)
        await stream.answer(b"%d" % len(request.body))

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        await client.send(upload_head(1_000_000) + b"x" * 10)
        await eventually(lambda: worker.received and worker.received[0].body)
        assert worker.received[0].get("content-length") is None
        await client.send(b"x" * 999_990)
        assert (await client.answer()).body == b"1000000"
        client.close()

    play_upload(scene, script)


def test_a_spooled_form_goes_with_its_length() -> None:
    sound = bytes(range(256)) * 16384

    async def script(stream: Stream, request: Received) -> None:
        await stream.peer.until(lambda: stream.is_ended)
        assert request.get("content-length") == str(len(request.body))
        assert sound in request.body
        await stream.answer(b'{"text":"hi"}')

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        answer = await client.ask(
            transcription(("file", sound), ("model", MODEL.encode()))
        )
        assert (answer.status, answer.body) == (200, b'{"text":"hi"}')
        client.close()

    play_upload(scene, script)


def test_a_worker_that_takes_nothing_holds_its_client() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.until_gone()

    async def scene(stage: Stage, worker: H2Worker) -> None:
        worker.reads = False
        client = await stage.client()
        client.writer.write(upload_head(64 << 20) + b"x" * (32 << 20))
        await eventually(lambda: worker.received)
        await eventually(lambda: len(worker.received[0].body) == 65535)
        assert await still(client.writer.transport.get_write_buffer_size) > 0
        client.reset()
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert not worker.peer.is_lost

    play_upload(scene, script)


def test_an_early_answer_ends_the_upload_and_keeps_the_connection() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.answer(b"no", 400)

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        await client.send(upload_head(1_000_000) + b"x" * 10)
        assert (await client.answer()).status == 400
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert not worker.peer.is_lost
        client.close()

    play_upload(scene, script)


def test_a_client_that_leaves_within_its_upload_leaves_half_a_body() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.until_gone()

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        await client.send(upload_head(1_000) + b"x" * 10)
        await eventually(lambda: worker.received and worker.received[0].body)
        client.close()
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert not worker.peer.streams[1].is_ended
        assert not worker.peer.is_lost

    play_upload(scene, script)


def test_a_fault_behind_a_file_that_is_passed_on_resets_its_stream() -> None:
    async def script(stream: Stream, request: Received) -> None:
        await stream.until_gone()

    async def scene(stage: Stage, worker: H2Worker) -> None:
        client = await stage.client()
        fields = (("model", MODEL.encode()), ("file", b"x" * 900_000))
        answer = await client.ask(transcription(*fields, ("stream", b"yes")))
        assert "Invalid stream" in check_bad_text(answer)
        await eventually(lambda: worker.peer.streams[1].reset_code == CANCEL)
        assert not worker.peer.streams[1].is_ended
        assert not worker.peer.is_lost
        assert stage.records[0].backend_errors == 0
        client.close()

    play_upload(scene, script)
