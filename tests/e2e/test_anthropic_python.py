"""The Anthropic Python client against what ``make run`` starts."""

from __future__ import annotations

from collections.abc import Iterator

import anthropic
import pytest
from anthropic.types import MessageParam

from tests.e2e.process import MODEL, RunningGateway

HELLO: list[MessageParam] = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(gateway: RunningGateway) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=gateway.url, api_key="none", max_retries=0
    ) as made:
        yield made


def test_a_message_is_answered(client: anthropic.Anthropic) -> None:
    answer = client.messages.create(model=MODEL, messages=HELLO, max_tokens=16)
    assert answer.role == "assistant"
    assert answer.content[0].type == "text" and answer.content[0].text
    assert answer.usage.output_tokens > 0


def test_a_streamed_message_is_the_plain_one(client: anthropic.Anthropic) -> None:
    plain = client.messages.create(model=MODEL, messages=HELLO, max_tokens=16)
    with client.messages.stream(model=MODEL, messages=HELLO, max_tokens=16) as stream:
        text = "".join(stream.text_stream)
        whole = stream.get_final_message()
    assert plain.content[0].type == "text" and text == plain.content[0].text
    assert whole.usage.output_tokens == plain.usage.output_tokens


def test_a_conversation_in_blocks_with_tools_is_taken(
    client: anthropic.Anthropic,
) -> None:
    turns: list[MessageParam] = [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": "sunny"}
            ],
        },
    ]
    answer = client.messages.create(
        model=MODEL,
        messages=turns,
        system=[{"type": "text", "text": "Be short."}],
        tools=[{"name": "weather", "input_schema": {"type": "object"}}],
        tool_choice={"type": "auto"},
        stop_sequences=["nobody says this"],
        temperature=0.5,
        max_tokens=16,
    )
    assert answer.stop_reason == "max_tokens"


def test_a_value_out_of_range_is_the_clients_error(
    client: anthropic.Anthropic,
) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        client.messages.create(model=MODEL, messages=HELLO, max_tokens=0)
    assert isinstance(refused.value.body, dict)
    assert refused.value.body["type"] == "error"


def test_an_unknown_model_is_not_found(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError):
        client.messages.create(model="nobody", messages=HELLO, max_tokens=4)
