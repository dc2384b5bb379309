"""What bodies ask for: smgproxy/simulated/bodies.py."""

import pytest

from smgproxy.simulated.bodies import (
    Ask,
    BadAsk,
    read_chat,
    read_completion,
    read_generate,
    read_messages,
)
from smgproxy.simulated.engine import digest, digest_ids

HI = b'"messages":[{"role":"user","content":"hi"}]'


def chat(fields: bytes = b"") -> Ask:
    return read_chat(b"{" + HI + fields + b"}", "served")


def test_chat_defaults() -> None:
    ask = chat()
    assert ask.model == "served"
    assert ask.choices == 1
    assert not ask.is_stream and not ask.wants_usage
    assert ask.limits.max_tokens is None


def test_chat_reads_every_field_that_changes_the_answer() -> None:
    ask = chat(
        b',"model":"m","n":2,"max_tokens":9,"stop":["a","b"],"stream":true,'
        b'"stream_options":{"include_usage":true},"ignore_eos":true'
    )
    assert (ask.model, ask.choices, ask.is_stream, ask.wants_usage) == (
        *("m", 2, True, True),
    )
    assert ask.limits.max_tokens == 9
    assert ask.limits.stops == ("a", "b")
    assert ask.limits.is_endless


def test_max_completion_tokens_goes_before_max_tokens() -> None:
    ask = chat(b',"max_tokens":9,"max_completion_tokens":4')
    assert ask.limits.max_tokens == 4


def test_null_is_as_good_as_absent() -> None:
    ask = chat(
        b',"model":null,"n":null,"max_tokens":null,"stop":null,"stream":null,'
        b'"stream_options":null,"ignore_eos":null'
    )
    assert ask == chat()


def test_unknown_fields_are_ignored() -> None:
    assert chat(b',"temperature":0,"tools":[{"type":"x"}]') == chat()


def test_text_parts_and_plain_text_are_the_same_prompt() -> None:
    parts = b'[{"type":"text","text":"h"},{"type":"image_url"},{"text":"i"}]'
    body = b'{"messages":[{"role":"user","content":' + parts + b"}]}"
    assert read_chat(body, "m").prompts == read_chat(b"{" + HI + b"}", "m").prompts


def test_message_without_content_is_accepted() -> None:
    body = b'{"messages":[{"role":"assistant","content":null,"tool_calls":[]}]}'
    assert read_chat(body, "m").prompts == (digest(("assistant: \n",)),)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"messages":[]}',
        b'{"messages":"hi"}',
        b'{"messages":[{"content":"no role"}]}',
        b'{"messages":[{"role":"user","content":"\xff"}]}',
        b'{"messages":[{"role":"user","content":"\\ud800"}]}',
        b"{" + HI + b',"max_tokens":0}',
        b"{" + HI + b',"max_tokens":"9"}',
        b"{" + HI + b',"n":0}',
        b"{" + HI + b',"n":65}',
        b"{" + HI + b',"n":NaN}',
    ],
)
def test_chat_that_cannot_be_answered_is_refused(body: bytes) -> None:
    with pytest.raises(BadAsk):
        read_chat(body, "m")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (b'"hi"', (digest(("hi",)),)),
        (b"[1,2]", (digest_ids([1, 2]),)),
        (b'["hi","ho"]', (digest(("hi",)), digest(("ho",)))),
        (b"[[1,2],[3]]", (digest_ids([1, 2]), digest_ids([3]))),
    ],
)
def test_completion_prompt_comes_in_four_forms(
    prompt: bytes, expected: tuple[object, ...]
) -> None:
    assert read_completion(b'{"prompt":' + prompt + b"}", "m").prompts == expected


@pytest.mark.parametrize("prompt", [b"[]", b'[1,"a"]', b"[true]", b"null", b"1.5"])
def test_completion_prompt_of_no_known_form_is_refused(prompt: bytes) -> None:
    with pytest.raises(BadAsk):
        read_completion(b'{"prompt":' + prompt + b"}", "m")


def test_prompts_times_choices_are_bounded() -> None:
    many = b",".join([b'"a"'] * 33)
    with pytest.raises(BadAsk):
        read_completion(b'{"n":2,"prompt":[' + many + b"]}", "m")


def test_messages_put_the_system_prompt_first() -> None:
    body = b'{"max_tokens":5,"stop_sequences":["x"],"system":"be kind",' + HI + b"}"
    ask = read_messages(body, "m")
    assert ask.prompts == (digest(("system: be kind\nuser: hi\n",)),)
    assert (ask.limits.max_tokens, ask.limits.stops) == (5, ("x",))


@pytest.mark.parametrize(
    "body", [b"{" + HI + b"}", b'{"max_tokens":5,"messages":[],"system":"s"}']
)
def test_messages_need_max_tokens_and_a_message(body: bytes) -> None:
    with pytest.raises(BadAsk):
        read_messages(body, "m")


def test_generate_reads_sampling_params() -> None:
    ask = read_generate(
        b'{"text":"hi","rid":"r1","stream":true,'
        b'"sampling_params":{"max_new_tokens":3,"n":2,"stop":"x"}}',
        "m",
    )
    assert (ask.rid, ask.is_stream, ask.choices, ask.is_batch) == ("r1", True, 2, True)
    assert (ask.limits.max_tokens, ask.limits.stops) == (3, ("x",))


@pytest.mark.parametrize(
    ("field", "is_batch"),
    [
        (b'"text":"a"', False),
        (b'"text":["a"]', True),
        (b'"input_ids":[1]', False),
        (b'"input_ids":[[1]]', True),
    ],
)
def test_generate_tells_one_prompt_from_a_batch(field: bytes, is_batch: bool) -> None:
    assert read_generate(b"{" + field + b"}", "m").is_batch is is_batch


@pytest.mark.parametrize("body", [b"{}", b'{"text":[]}', b'{"input_ids":["a"]}'])
def test_generate_without_a_prompt_is_refused(body: bytes) -> None:
    with pytest.raises(BadAsk):
        read_generate(body, "m")
