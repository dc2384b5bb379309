"""Streams of MiniMax models arrive in larger deltas; all others as the worker sent."""

from __future__ import annotations

import json

import pytest

from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer, chat, post
from tests.fakes.worker import Connection, Received, Script

TOKEN = b'data: {"choices":[{"index":0,"delta":{"content":"token "}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def sends(*chunks: bytes, head: str = "", is_cut: bool = False) -> Script:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream(head)
        for chunk in chunks:
            await connection.chunk(chunk)
        if is_cut:
            connection.close()
        else:
            await connection.end_stream()

    return script


def answer_of(script: Script, model: str = "MiniMax-M2", stream: bool = True) -> Answer:
    answers: list[Answer] = []

    async def scene(stage: Stage) -> None:
        stage.records[0].models = [{"id": model}]
        stage.gateway.registry.changed()
        client = await stage.client()
        answers.append(await client.ask(post(chat(model, stream=stream))))
        client.close()

    play(scene, script)
    return answers[0]


def texts(answer: Answer) -> list[str]:
    lines = answer.body.decode().split("\n\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    return [
        event["choices"][0]["delta"]["content"]
        for event in events
        if "choices" in event
    ]


def test_tokens_are_gathered() -> None:
    answer = answer_of(sends(*[TOKEN] * 30, DONE))
    assert [len(text) for text in texts(answer)] == [84, 84, 12]
    assert answer.body.endswith(DONE)


@pytest.mark.parametrize(
    ("model", "head"),
    [("m", ""), ("my-minimax", ""), ("MiniMax-M2", "content-encoding: x\r\n")],
)
def test_other_streams_are_relayed_as_they_are(model: str, head: str) -> None:
    answer = answer_of(sends(TOKEN, TOKEN, DONE, head=head), model)
    assert answer.body == TOKEN + TOKEN + DONE


def test_an_answer_that_is_no_stream_is_relayed_as_it_is() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(TOKEN)

    answer = answer_of(script)
    assert (answer.body, answer.get("content-length")) == (TOKEN, str(len(TOKEN)))


def test_streams_of_other_routes_are_relayed_as_they_are() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].models = [{"id": "abab7"}]
        stage.gateway.registry.changed()
        client = await stage.client()
        path = "/v1/completions"
        body = b'{"model":"abab7","prompt":"a","stream":true}'
        answer = await client.ask(post(body, path))
        assert answer.body == TOKEN + TOKEN + DONE
        client.close()

    play(scene, sends(TOKEN, TOKEN, DONE))


def test_a_pause_lets_the_text_go() -> None:
    async def scene(stage: Stage) -> None:
        stage.records[0].models = [{"id": "abab7"}]
        stage.gateway.registry.changed()
        client = await stage.client()
        await client.send(post(chat("abab7", stream=True)))
        await client.head()
        assert b"token " in await client.chunk()
        client.reset()

    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(TOKEN)
        await connection.until_gone()

    play(scene, script)


def test_text_that_was_held_back_precedes_the_error_of_a_broken_stream() -> None:
    answer = answer_of(sends(TOKEN, is_cut=True))
    assert texts(answer) == ["token "]
    assert b'"type":"stream_error"' in answer.body
    assert answer.body.endswith(DONE)
    assert answer.is_whole
