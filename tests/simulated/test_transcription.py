"""Transcriptions of the simulated worker: smgproxy/simulated/transcription.py."""

import json
from typing import Any

import openai
import pytest

from smgproxy.simulated import engine
from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.server import SimulatedServer
from smgproxy.simulated.transcription import TranscriptionReply, read_transcription
from tests.simulated.serving import RawClient, post, serve

PATH = "/v1/audio/transcriptions"


def form(file: bytes, name: bytes = b"file", **fields: bytes) -> bytes:
    parts = {name: file} | {key.encode(): value for key, value in fields.items()}
    pieces = [
        b'--b\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % part
        for part in parts.items()
    ]
    return b"".join(pieces) + b"--b--\r\n"


def heard(file: bytes) -> Any:
    ask = read_transcription(form(file), "m")
    answer = engine.answer(ask.prompts, ask.choices, ask.limits)
    return json.loads(TranscriptionReply(ask, answer, "id", 0).whole())


def test_the_same_file_says_the_same_and_another_something_else() -> None:
    assert heard(b"a" * 9000) == heard(b"a" * 9000)
    assert heard(b"a" * 9000)["text"] != heard(b"b" * 9000)["text"]
    assert heard(b"a")["text"]


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{}", form(b""), form(b"x", b"other"), form(b"x")[:-8]),
        form(b"x", response_format=b"srt"),
    ],
)
def test_what_an_engine_refuses_is_refused(body: bytes) -> None:
    with pytest.raises(BadAsk):
        read_transcription(body, "m")


def test_a_transcript_may_be_bare_text() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(post(PATH, form(b"x" * 9000, response_format=b"text")))
            response = await client.response()
            assert response.headers[b"content-type"].startswith(b"text/plain")
            text = heard(b"x" * 9000)["text"]
            assert response.body.decode() == text + "\n"

    serve(scenario)


def test_a_clients_stream_equals_the_plain_answer() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        client = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
        async with client:
            create = client.audio.transcriptions.create
            sound = ("a.wav", b"x" * 9000)
            plain = await create(model="m", file=sound)
            text, done = "", None
            async for event in await create(model="m", file=sound, stream=True):
                if event.type == "transcript.text.delta":
                    text += event.delta
                elif event.type == "transcript.text.done":
                    done = event.text
            assert text == done == plain.text

    serve(scenario)
