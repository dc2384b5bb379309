"""The shapes of the dialects: smgproxy/simulated/replies.py."""

import json
from typing import Any

import pytest

from smgproxy.simulated import bodies, engine
from smgproxy.simulated.replies import (
    ChatReply,
    CompletionReply,
    GenerateReply,
    MessageReply,
    Reply,
)

CHAT = b'{"messages":[{"role":"user","content":"hi"}]%b}'
COMPLETION = b'{"prompt":["hi","ho"]%b}'
MESSAGES = b'{"max_tokens":%d,"messages":[{"role":"user","content":"hi"}]%b}'
GENERATE = b'{"text":"hi"%b}'


def reply_to(shape: type[Reply], ask: bodies.Ask) -> Reply:
    answer = engine.answer(ask.prompts, ask.choices, ask.limits)
    return shape(ask, answer, "0" * 24, 1700000000)


def chat(fields: bytes = b"") -> Reply:
    return reply_to(ChatReply, bodies.read_chat(CHAT % fields, "m"))


def completion(fields: bytes = b"") -> Reply:
    ask = bodies.read_completion(COMPLETION % fields, "m")
    return reply_to(CompletionReply, ask)


def message(max_tokens: int = 99, fields: bytes = b"") -> Reply:
    ask = bodies.read_messages(MESSAGES % (max_tokens, fields), "m")
    return reply_to(MessageReply, ask)


def generate(fields: bytes = b"") -> Reply:
    return reply_to(GenerateReply, bodies.read_generate(GENERATE % fields, "m"))


def whole(reply: Reply) -> Any:
    return json.loads(reply.whole())


def events(reply: Reply) -> list[bytes]:
    steps = [event for index in range(reply.steps) for event in reply.step(index)]
    return [*reply.opening(), *steps, *reply.closing()]


def data_of(event: bytes) -> Any:
    line = event.split(b"data: ", 1)[1]
    return line if line == b"[DONE]\n\n" else json.loads(line)


def chunks(reply: Reply) -> list[Any]:
    """The data of an OpenAI-like stream, whose end mark is checked and taken off."""
    said = [data_of(event) for event in events(reply)]
    assert said.pop() == b"[DONE]\n\n"
    return said


@pytest.mark.parametrize("make", [chat, completion, message, generate])
def test_every_event_is_one_sse_frame(make: Any) -> None:
    for event in events(make()):
        assert event.endswith(b"\n\n") and event.count(b"\n\n") == 1


@pytest.mark.parametrize("fields", [b"", b',"n":3', b',"n":2,"max_tokens":4'])
def test_chat_stream_joined_is_the_whole_answer(fields: bytes) -> None:
    reply = chat(fields)
    texts = [""] * len(reply.answer.generations)
    for chunk in chunks(reply):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == [choice["message"]["content"] for choice in whole(reply)["choices"]]


def test_chat_stream_has_one_event_a_token_between_role_and_finish() -> None:
    reply = chat(b',"max_tokens":5')
    said = chunks(reply)
    assert len(said) == 1 + 5 + 1
    assert said[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert said[-1]["choices"][0]["delta"] == {}
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in said]
    assert reasons == [None] * 6 + ["length"]


def test_include_usage_adds_a_last_chunk_without_choices() -> None:
    reply = chat(b',"max_tokens":5,"stream_options":{"include_usage":true}')
    last = chunks(reply)[-1]
    assert last["choices"] == []
    assert last["usage"] == whole(reply)["usage"]
    assert last["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 5,
        "total_tokens": 8,
    }


def test_chat_without_include_usage_streams_no_usage() -> None:
    assert all("usage" not in chunk for chunk in chunks(chat()))


def test_model_is_echoed_whatever_it_is_called() -> None:
    name = 'a"@@"/é\\'
    fields = b',"model":' + json.dumps(name).encode()
    reply = chat(fields)
    assert whole(reply)["model"] == name
    assert {chunk["model"] for chunk in chunks(reply)} == {name}
    assert "@@" not in "".join(
        chunk["choices"][0]["delta"].get("content", "") for chunk in chunks(reply)
    )


def test_completion_numbers_choices_prompt_by_prompt() -> None:
    reply = completion(b',"n":2,"max_tokens":6')
    texts = [""] * 4
    for chunk in chunks(reply):
        for choice in chunk["choices"]:
            texts[choice["index"]] += choice["text"]
    answer = whole(reply)
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
    assert [choice["text"] for choice in answer["choices"]] == texts
    assert answer["object"] == "text_completion"
    assert len(set(texts)) == 4


def test_message_stream_names_its_events_in_anthropics_order() -> None:
    names = []
    for event in events(message(2)):
        name, data = event.decode().split("\n", 1)
        names.append(name.removeprefix("event: "))
        assert data_of(event)["type"] == names[-1]
        assert data.startswith("data: ")
    assert names == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_message_stream_joined_is_the_whole_answer() -> None:
    reply = message()
    said = [data_of(event) for event in events(reply)]
    deltas = [data["delta"] for data in said if data["type"] == "content_block_delta"]
    answer = whole(reply)
    joined = "".join(delta["text"] for delta in deltas)
    assert answer["content"] == [{"type": "text", "text": joined}]
    assert said[0]["message"]["usage"] == {"input_tokens": 3, "output_tokens": 0}
    assert answer["usage"] == {"input_tokens": 3, "output_tokens": len(deltas)}


@pytest.mark.parametrize(
    ("max_tokens", "fields", "reason", "stop"),
    [
        (99, b"", "end_turn", None),
        (2, b"", "max_tokens", None),
        (99, b',"stop_sequences":["."]', "stop_sequence", "."),
    ],
)
def test_message_says_why_it_ended(
    max_tokens: int, fields: bytes, reason: str, stop: str | None
) -> None:
    reply = message(max_tokens, fields)
    expected = {"stop_reason": reason, "stop_sequence": stop}
    assert data_of(events(reply)[-2])["delta"] == expected
    assert {key: whole(reply)[key] for key in expected} == expected


def test_generate_events_hold_all_text_so_far() -> None:
    reply = generate(b',"sampling_params":{"max_new_tokens":3}')
    said = chunks(reply)
    answer = whole(reply)
    assert [chunk["meta_info"]["completion_tokens"] for chunk in said] == [1, 2, 3]
    assert all(answer["text"].startswith(chunk["text"]) for chunk in said)
    assert said[-1] == answer
    assert said[0]["meta_info"]["finish_reason"] is None
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 3}


def test_generate_keeps_the_request_id_it_was_given() -> None:
    assert whole(generate(b',"rid":"r-1"'))["meta_info"]["id"] == "r-1"


def test_generate_answers_a_batch_with_a_list() -> None:
    reply = generate(b',"sampling_params":{"n":2}')
    answer = whole(reply)
    assert [item["index"] for item in answer] == [0, 1]
    last = {chunk["index"]: chunk for chunk in chunks(reply)}
    assert [last[0], last[1]] == answer


@pytest.mark.parametrize("fields", [b"", b',"n":2'])
def test_chat_that_stops_before_its_first_token_still_ends_well(fields: bytes) -> None:
    # Every answer begins with one of these.
    stops = b',"stop":["The","This","That","Each","Every","One"]'
    said = chunks(chat(stops + fields))
    assert said[-1]["choices"][0]["finish_reason"] == "stop"
    assert whole(chat(stops))["usage"]["completion_tokens"] == 0


def test_generate_that_stops_before_its_first_token_says_so() -> None:
    fields = b'{"stop":["The","This","That","Each","Every","One"]}'
    (only,) = chunks(generate(b',"sampling_params":' + fields))
    assert only["text"] == ""
    assert only["meta_info"]["finish_reason"]["type"] == "stop"
