"""Streamed uploads of HTTP/2 clients: the same path, and what ends one stream only."""

from __future__ import annotations

from typing import Self

import pytest
import ujson
from h2.connection import H2Connection
from h2.events import DataReceived, Event, ResponseReceived, StreamEnded, StreamReset

from tests.e2e import forms
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.uploads import PATH, UploadedTo, UploadWorker, body_paths, play_upload
from tests.fakes.client import Client
from tests.fakes.http2_frames import Http2Answer, Http2Client
from tests.fakes.worker import Received

NO_ERROR, CANCEL = 0, 8


class H2Client:
    """One HTTP/2 connection by prior knowledge, and all it was told."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.h2 = H2Connection()
        self.events: list[Event] = []

    @classmethod
    async def connect(cls, stage: Stage) -> Self:
        made = cls(await stage.client())
        made.h2.initiate_connection()
        await made.flush()
        return made

    async def flush(self) -> None:
        await self.client.send(self.h2.data_to_send())

    async def begin(
        self, length: int, body: bytes, path: str = PATH, kind: str = "text/plain"
    ) -> int:
        """Begin an upload of ``length`` bytes; its stream."""
        stream = self.h2.get_next_available_stream_id()
        fields = [
            *((":method", "POST"), (":scheme", "http"), (":authority", "g")),
            *((":path", path), ("content-length", str(length)), ("content-type", kind)),
        ]
        self.h2.send_headers(stream, fields)
        await self.send(stream, body)
        return stream

    async def send(self, stream: int, body: bytes, end: bool = False) -> None:
        """Send on, as the windows allow."""
        while body:
            size = min(self.h2.local_flow_control_window(stream), 16384, len(body))
            if size:
                self.h2.send_data(stream, body[:size])
                body = body[size:]
                await self.flush()
            else:
                await self.read()
        if end:
            self.h2.end_stream(stream)
        await self.flush()

    async def read(self) -> None:
        """Take what came in."""
        data = await self.client.reader.read(65536)
        assert data, "the gateway closed the connection"
        for event in self.h2.receive_data(data):
            self.events.append(event)
            if isinstance(event, DataReceived):
                self.h2.acknowledge_received_data(
                    event.flow_controlled_length, event.stream_id
                )
        await self.flush()

    async def until(self, kind: type[Event], stream: int) -> Event:
        """Read on until an event of this kind came for a stream."""
        while True:
            for event in self.events:
                if type(event) is kind and getattr(event, "stream_id", 0) == stream:
                    return event
            await self.read()

    async def status(self, stream: int) -> bytes:
        event = await self.until(ResponseReceived, stream)
        assert isinstance(event, ResponseReceived)
        return bytes(dict(event.headers)[b":status"])


async def take(connection: UploadedTo, request: Received) -> None:
    """Answer behind the body; one that begins with "early" is answered at once."""
    first = await connection.chunk_in() or b""
    if first.startswith(b"early"):
        await connection.answer(b"no", 400)
    rest, is_whole = await connection.body_in()
    request.body = first + rest
    if is_whole:
        await connection.answer(b"{}")
    else:
        connection.is_closed = True


def test_an_upload_streams_and_more_than_the_windows_fits() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await H2Client.connect(stage)
        body = bytes(range(256)) * 12_000  # 3 MB
        stream = await client.begin(len(body), b"")
        await eventually(lambda: worker.received)
        await client.send(stream, body, end=True)
        assert await client.status(stream) == b"200"
        assert worker.received[0].body == body
        assert worker.received[0].get("transfer-encoding") == "chunked"
        assert body_paths(stage) == {("streamed", "pure_forward"): 1}
        client.client.close()

    play_upload(scene, take)


def test_a_form_goes_on_while_it_comes_in() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await H2Client.connect(stage)
        sound = ("file", forms.LARGE)
        body = forms.form(forms.MODEL, sound)
        stream = await client.begin(
            len(body), body[:400_000], forms.PATH, forms.FORM_TYPE
        )
        await eventually(lambda: worker.received)
        await client.send(stream, body[400_000:], end=True)
        assert await client.status(stream) == b"200"
        assert forms.was_passed(worker.received[0], sound, forms.MODEL)
        client.client.close()

    play_upload(scene, take)


def test_an_early_answer_resets_its_stream_and_no_other() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await H2Client.connect(stage)
        other = await client.begin(10, b"12345")
        stream = await client.begin(1_000_000, b"early")
        assert await client.status(stream) == b"400"
        await client.until(StreamEnded, stream)
        reset = await client.until(StreamReset, stream)
        assert isinstance(reset, StreamReset) and reset.error_code == NO_ERROR
        await client.send(other, b"67890", end=True)
        assert await client.status(other) == b"200"
        client.client.close()

    play_upload(scene, take)


def test_a_client_that_resets_its_upload_leaves_half_a_body() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await H2Client.connect(stage)
        stream = await client.begin(10, b"12345")
        await eventually(lambda: worker.received)
        client.h2.reset_stream(stream, CANCEL)
        await client.flush()
        counted = {(400, "request_body_aborted"): 1}
        await eventually(lambda: stage.responses() == counted)
        assert stage.gateway.router_stats.upstream == counted
        await eventually(lambda: worker.received[0].body == b"12345")
        assert stage.records[0].backend_errors == 0
        client.client.close()

    play_upload(scene, take)


def test_an_upload_that_stalls_gets_408_and_its_stream_is_reset() -> None:
    async def scene(stage: Stage, worker: UploadWorker) -> None:
        client = await H2Client.connect(stage)
        stream = await client.begin(10, b"12345")
        assert await client.status(stream) == b"408"
        reset = await client.until(StreamReset, stream)
        assert isinstance(reset, StreamReset) and reset.error_code == NO_ERROR
        client.client.close()

    play_upload(scene, take, clients={"stream_body_stall_timeout_secs": 1})


LIMIT_100 = {"max_payload_size": 100}


async def check_too_large(client: Http2Client, answer: Http2Answer) -> None:
    """The upload is refused whole and stopped, and its connection goes on."""
    await client.until(lambda: answer.reset is not None)
    assert answer.status == 413 and answer.is_whole
    assert answer.headers["x-smg-error-code"] == "request_body_too_large"
    error = ujson.loads(bytes(answer.body))["error"]
    assert error["code"] == "request_body_too_large"
    assert answer.reset == NO_ERROR
    assert (await client.ask(b"[]")).status == 400
    client.close()


@pytest.mark.parametrize("path", [PATH, "/nope"])
def test_a_body_over_the_limit_is_refused_from_its_head(path: str) -> None:
    async def scene(stage: Stage) -> None:
        client = await Http2Client.connect(stage.port)
        fields = ("content-length", "101"), ("expect", "100-continue")
        answer = client.answers[await client.open(*fields, path=path)]
        await check_too_large(client, answer)

    play(scene, dispatch=LIMIT_100)


def test_a_body_that_grows_over_the_limit_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        client = await Http2Client.connect(stage.port)
        stream = await client.open()
        await client.body(stream, b"x" * 101, end=False)
        await check_too_large(client, client.answers[stream])
        assert stage.worker.received == []

    play(scene, dispatch=LIMIT_100)
