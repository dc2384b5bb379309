"""From bytes to a call: what is refused and in which words, what is forwarded."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import ujson

from smgproxy.api.steps import at_once
from tests.api.reading import MESSAGES, body_of, fault, read, refusal


def test_a_body_that_no_rule_changes_is_forwarded_as_the_very_same_object() -> None:
    body = body_of(temperature=0.5, zz={"deep": [1, None]})
    assert read(body).body is body


def test_a_call_says_what_routing_needs() -> None:
    call = read(body_of("a/b", stream=True))
    assert (call.model, call.is_stream, call.is_resliced) == ("a/b", True, False)
    assert read(b'{"text":"x"}', "generate").model is None


def test_a_renamed_call_names_the_other_model_and_changes_nothing_else() -> None:
    body = (
        b'{ "a" : 1.50, "model":"x", "messages":[{"role":"user","content":"\\u0041"}]}'
    )
    call = read(body)
    at_once(call.rename_steps('n"1'))
    assert call.model == 'n"1'
    assert call.body == (
        b'{"a":1.50,"model":"n\\"1","messages":[{"role":"user","content":"\\u0041"}]}'
    )
    at_once(call.rename_steps("x"))
    assert ujson.loads(call.body) == ujson.loads(body)


def test_a_renamed_call_keeps_the_profile_of_the_name_that_was_sent() -> None:
    call = read(body_of("minimax/m2", stream=True))
    at_once(call.rename_steps("llama"))
    assert call.is_resliced


RANGES = [
    ("temperature", "between 0 and 2", (-0.01, 2.01)),
    ("top_p", "greater than 0 and at most 1", (0, 1.01)),
    ("presence_penalty", "between -2 and 2", (-2.01, 2.01)),
    ("frequency_penalty", "between -2 and 2", (-2.01, 2.01)),
    ("repetition_penalty", "between 0 and 2", (-0.01, 2.01)),
    ("min_p", "between 0 and 1", (-0.01, 1.01)),
    ("top_k", "at least -1", (-2,)),
]
CHAT_RANGES = [
    ("n", "between 1 and 10", (0, 11)),
    ("max_completion_tokens", "at least 1", (0,)),
    ("top_logprobs", "between 0 and 20", (21,)),
]
COMPLETION_RANGES = [
    ("n", "between 1 and 128", (0, 129)),
    ("best_of", "between 0 and 20", (21,)),
    ("logprobs", "between 0 and 5", (6,)),
]


@pytest.mark.parametrize(
    ("route", "field", "choice", "value"),
    [
        (route, field, choice, value)
        for route, more in (("chat", CHAT_RANGES), ("completions", COMPLETION_RANGES))
        for field, choice, values in RANGES + more
        for value in values
    ],
)
def test_a_value_out_of_range_is_told_with_its_field_and_the_range(
    route: str, field: str, choice: str, value: float
) -> None:
    body = ujson.dumps(
        {"model": "m", "messages": MESSAGES, "prompt": "a", field: value}
    )
    expected = f"{field}: {value} is out of range, must be {choice}"
    assert refusal(body.encode(), route) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"stop": ["a", ""]}, "stop[1]: must not be empty"),
        ({"stop": list("abcde")}, "stop: must have at most 4 entries"),
        ({"messages": []}, "messages: must not be empty"),
        (
            {"messages": [{"role": "user", "content": ""}]},
            "messages[0].content: must not be empty",
        ),
        ({"top_k": 0}, "top_k: must be -1 (off) or at least 1, not 0"),
        (
            {"min_tokens": 6, "max_tokens": 5},
            "min_tokens: 6 exceeds max_tokens, which is 5",
        ),
        (
            {"stream_options": {}},
            "stream_options: only allowed when stream is true",
        ),
        (
            {"regex": "a", "ebnf": "b"},
            "regex, ebnf: only one constraint of the output may be set",
        ),
        (
            {"regex": "a", "response_format": {"type": "json_object"}},
            "regex: cannot be combined with a JSON output format",
        ),
        ({"tool_choice": "required"}, "tool_choice: only allowed when tools are given"),
        ({"logit_bias": {"7": 1, "-1": 1}}, "logit_bias: key '-1' is not a token id"),
        ({"logit_bias": {"": 1}}, "logit_bias: key '' is not a token id"),
        ({"logit_bias": {"²": 1}}, "logit_bias: key '²' is not a token id"),
    ],
)
def test_a_refusal_names_the_field_its_fault_and_what_is_allowed(
    fields: dict[str, Any], message: str
) -> None:
    body = {"model": "m", "messages": MESSAGES, **fields}
    assert refusal(ujson.dumps(body).encode()) == message


def test_a_logit_bias_is_a_map_of_token_ids() -> None:
    body = body_of(logit_bias={"0": -100, "151643": 1.5})
    assert read(body).body is body


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"model":"m"}', "missing required field `messages`"),
        (body_of(temperature="1"), "Expected `float | null`, got `str` - at"),
        (body_of(n=-1), "Expected `int` >= 0 - at `$.n`"),
        (body_of() + b"x", "trailing characters"),
        (b"", "truncated"),
        (b"[" * 100_000, "got `array`"),
        (b'{"a":' * 100_000, "nested too deeply"),
        (body_of()[:-1] + b',"z":NaN}', "invalid character"),
        (body_of()[:-1] + b',"z":"\\ud800"}', "truncated"),
        (body_of()[:-1] + b',"z":"\\udc00 "}', ""),
    ],
)
def test_a_body_that_cannot_be_read_is_a_parse_error(body: bytes, words: str) -> None:
    assert words in fault(body)


def test_a_wrong_type_anywhere_outweighs_a_wrong_range() -> None:
    assert "`$.stream`" in fault(body_of(temperature=9, stream="yes"))
    assert "truncated" in fault(body_of(temperature=9)[:-1])


def test_what_a_client_wrote_is_shown_only_in_part() -> None:
    body = body_of().replace(b'"user"', b'"%b"' % (b"x" * 10_000))
    assert len(fault(body)) < 400


def test_an_alias_reaches_the_worker_as_the_canonical_name() -> None:
    body = b'{ "zz":1.50, "model" : "nick", "messages":[{"role":"user","content":"a"}]}'
    call = read(body, aliases={"nick": "org/m"})
    assert call.model == "org/m"
    assert call.body == (
        b'{ "zz":1.50, "model" : "org/m", "messages":[{"role":"user","content":"a"}]}'
    )
    assert read(b'{"model":"nick","input":"a"}', "embeddings", {"nick": "m"}).body == (
        b'{"model":"m","input":"a"}'
    )


def test_a_number_as_effort_becomes_its_decimal_string() -> None:
    body = body_of()[:-1] + b',"reasoning_effort":1e3,"z":1E5}'
    assert read(body).body.endswith(b',"reasoning_effort":"1000.0","z":1E5}')


def test_tools_on_messages_are_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    body = (
        b'{"model":"m","messages":[{"role":"system","tools":[1],"content":"\\u0041"},'
        b'{"role":"user","tools":[],"content":"hi","z":1.0}]}'
    )
    with caplog.at_level(logging.WARNING, "smgproxy.api"):
        call = read(body)
    assert call.body == (
        b'{"model":"m","messages":[{"role":"system","content":"\\u0041"},'
        b'{"role":"user","content":"hi","z":1.0}]}'
    )
    assert len(caplog.records) == 1


def test_repeated_unknown_fields_survive_an_edit() -> None:
    body = body_of()[:-1] + b',"zz":1,"yy":0,"zz":2,"reasoning_effort":3}'
    assert read(body).body.endswith(b'"zz":1,"yy":0,"zz":2,"reasoning_effort":"3"}')


@pytest.mark.parametrize(
    "item",
    [
        {"role": "user", "content": "hi"},
        {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": None, "role": "developer", "content": "hi"},
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "item_reference", "id": "x"},
        {"id": "x"},
        {"type": "of the worker's own", "zz": 1},
    ],
)
def test_an_item_of_a_responses_input_may_leave_out_that_it_is_a_message(
    item: dict[str, Any],
) -> None:
    body = ujson.dumps({"model": "m", "input": [item]}).encode()
    assert read(body, "responses").body is body


@pytest.mark.parametrize(
    "item", [{}, {"content": "hi"}, {"role": "user"}, {"type": 5}, "hi", None, []]
)
def test_an_item_that_does_not_say_what_it_is_is_a_parse_error(item: Any) -> None:
    body = ujson.dumps({"model": "m", "input": [item]}).encode()
    assert "`$.input[" in fault(body, "responses")
