"""The OpenAI Python client against what ``make run`` starts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import openai
import pydantic
import pytest
from openai.types.chat import (
    ChatCompletionFunctionToolParam,
    ChatCompletionMessageParam,
    ChatCompletionNamedToolChoiceParam,
)

from tests.e2e.process import MODEL, RunningGateway, eventually

HELLO: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Hello"}]

WEATHER: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        },
    },
}
CALLED: ChatCompletionNamedToolChoiceParam = {
    "type": "function",
    "function": {"name": "weather"},
}


class Place(pydantic.BaseModel):
    """What an application wants to be told."""

    name: str
    tags: list[str]
    size: float


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


def test_a_tool_is_called_and_its_result_taken(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, tools=[WEATHER], tool_choice=CALLED
    )
    assert answer.choices[0].finish_reason == "tool_calls"
    message = answer.choices[0].message
    assert message.content is None and message.tool_calls is not None
    [call] = message.tool_calls
    assert call.type == "function" and call.function.name == "weather"
    assert json.loads(call.function.arguments) == {"city": "word", "days": 1}
    history: list[Any] = [
        *HELLO,
        message,
        {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
    ]
    answer = client.chat.completions.create(
        model=MODEL, messages=history, tools=[WEATHER]
    )
    assert answer.choices[0].finish_reason == "stop"


def test_a_streamed_tool_call_joined_is_the_plain_one(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL,
        messages=HELLO,
        tools=[WEATHER],
        tool_choice="required",
        stream_options={"include_usage": True},
    ) as stream:
        pieces = [
            event.arguments_delta
            for event in stream
            if event.type == "tool_calls.function.arguments.delta"
        ]
        answer = stream.get_final_completion()
    [choice] = answer.choices
    assert choice.finish_reason == "tool_calls" and choice.message.tool_calls
    [call] = choice.message.tool_calls
    assert call.function.arguments == "".join(pieces) and len(pieces) > 2
    assert json.loads(call.function.arguments) == {"city": "word", "days": 1}
    assert answer.usage is not None and answer.usage.completion_tokens > 2


def test_an_answer_follows_the_schema_of_a_type(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model=MODEL, messages=HELLO, response_format=Place
    )
    assert answer.choices[0].message.parsed == Place(
        name="word", tags=["word"], size=0.5
    )


def test_so_does_a_streamed_one(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=HELLO, response_format=Place
    ) as stream:
        answer = stream.get_final_completion()
    assert answer.choices[0].message.parsed is not None


def test_log_probabilities_are_told_of_every_token(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=HELLO, logprobs=True, top_logprobs=2, max_tokens=7
    )
    [choice] = answer.choices
    assert choice.logprobs is not None and choice.logprobs.content is not None
    tokens = choice.logprobs.content
    assert "".join(token.token for token in tokens) == choice.message.content
    assert [len(token.top_logprobs) for token in tokens] == [2] * 7
    streamed = client.chat.completions.create(
        model=MODEL,
        messages=HELLO,
        logprobs=True,
        top_logprobs=2,
        max_tokens=7,
        stream=True,
    )
    told = [
        token
        for chunk in streamed
        for one in chunk.choices
        if one.logprobs is not None
        for token in one.logprobs.content or ()
    ]
    assert told == tokens


def test_effort_and_a_logprob_without_logprobs_are_told_apart(
    client: openai.OpenAI,
) -> None:
    assert client.chat.completions.create(
        model=MODEL, messages=HELLO, reasoning_effort="low"
    ).choices
    with pytest.raises(openai.BadRequestError, match="top_logprobs: only allowed"):
        client.chat.completions.create(model=MODEL, messages=HELLO, top_logprobs=2)


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
