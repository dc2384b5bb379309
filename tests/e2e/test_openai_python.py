"""The OpenAI Python client against what ``make run`` starts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
)

from tests.e2e.process import MODEL, RunningGateway, eventually

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]

WEATHER: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object"}},
}


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[openai.OpenAI]:
    base = f"{gateway.url}/v1"
    with openai.OpenAI(base_url=base, api_key="none", max_retries=0) as made:
        yield made


def test_a_chat_is_answered(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None and answer.usage.completion_tokens > 0


def test_a_chat_stream_joined_is_the_plain_answer(client: openai.OpenAI) -> None:
    plain = client.chat.completions.create(model=MODEL, messages=HELLO)
    text, usage, chunks = "", None, 0
    for chunk in client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        stream=True,
        stream_options={"include_usage": True},
    ):
        chunks += 1
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
    assert text == plain.choices[0].message.content
    assert usage == plain.usage
    assert chunks > 5


def test_a_completion_stream_joined_is_the_plain_answer(client: openai.OpenAI) -> None:
    plain = client.completions.create(model=MODEL, prompt="Hello", max_tokens=9)
    stream = client.completions.create(
        model=MODEL, prompt="Hello", max_tokens=9, stream=True
    )
    text = "".join(chunk.choices[0].text for chunk in stream if chunk.choices)
    assert text == plain.choices[0].text
    assert plain.choices[0].finish_reason == "length"


@pytest.mark.parametrize("size", [9_000, 900_000], ids=["kept", "passed on"])
def test_a_transcript_stream_joined_is_the_plain_answer(
    client: openai.OpenAI, size: int
) -> None:
    create = client.audio.transcriptions.create
    sound = ("a.wav", b"sound" * (size // 5), "audio/wav")
    text, done = "", ""
    for event in create(model=MODEL, file=sound, stream=True, temperature=0.5):
        if event.type == "transcript.text.delta":
            text += event.delta
        elif event.type == "transcript.text.done":
            done = event.text
    assert text and text == done
    assert create(model=MODEL, file=sound, language="en").text == text


def test_embeddings_come_in_the_clients_base64_and_as_numbers(
    client: openai.OpenAI,
) -> None:
    coded = client.embeddings.create(model=MODEL, input=["one", "two"])
    plain = client.embeddings.create(
        model=MODEL, input=["one", "two"], encoding_format="float"
    )
    assert len(coded.data) == len(plain.data) == 2
    for ours, theirs in zip(coded.data, plain.data):
        assert all(map(math.isclose, ours.embedding, theirs.embedding))


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=HELLO)
    assert caught.value.code == "model_not_found"
    assert "no-such-model" in caught.value.message


def test_a_body_the_gateway_cannot_route_is_a_bad_request(
    client: openai.OpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(
            model=MODEL, messages=HELLO, extra_body={"model": 5}
        )


def test_a_body_against_a_rule_is_a_bad_request(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="messages: must not be empty"):
        client.chat.completions.create(model=MODEL, messages=[])
    with pytest.raises(openai.BadRequestError, match="no tool is named 'other'"):
        client.chat.completions.create(
            model=MODEL,
            messages=HELLO,
            tools=[WEATHER],
            tool_choice={"type": "function", "function": {"name": "other"}},
        )


def test_tools_and_structured_output_are_taken(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
        },
        logprobs=True,
        top_logprobs=2,
        reasoning_effort="low",
    )
    assert answer.choices


def test_a_path_that_is_no_route_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.files.list()


def test_every_answer_has_a_request_id_for_the_client(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model=MODEL, messages=HELLO)
    assert answer._request_id


def aborted(gateway: RunningGateway) -> float:
    """How many requests were given up by their client, over all workers."""
    total = 0.0
    for worker in gateway.get("/workers")["workers"]:
        for line in gateway.ask("GET", f"{worker['url']}/metrics").text.splitlines():
            if line.startswith("sglang:num_aborted_requests_total"):
                total += float(line.split()[-1])
    return total


def loads(gateway: RunningGateway) -> list[int]:
    """What the gateway believes each worker is doing."""
    return [worker["load"] for worker in gateway.get("/workers")["workers"]]


def test_an_abandoned_stream_stops_the_engine(
    gateway: RunningGateway, client: openai.OpenAI
) -> None:
    before = aborted(gateway)
    stream = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        stream=True,
        max_tokens=5000,
        extra_body={"ignore_eos": True},
    )
    next(iter(stream))
    assert sum(loads(gateway)) == 1
    stream.close()
    eventually(lambda: aborted(gateway) == before + 1, 2.0)
    eventually(lambda: sum(loads(gateway)) == 0, 2.0)


@pytest.mark.filterwarnings("ignore:connect:DeprecationWarning")
def test_a_realtime_session_is_held(client: openai.OpenAI) -> None:
    with client.realtime.connect(model=MODEL) as session:
        created = session.recv()
        assert created.type == "session.created"
        session.send({"type": "input_audio_buffer.commit", "event_id": "e1"})
        assert session.recv().to_dict()["event_id"] == "e1"
