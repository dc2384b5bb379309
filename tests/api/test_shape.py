"""A modelled key that is there twice is refused at any depth, any other is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api.chat import ChatRequest
from smgproxy.api.shape import Shape, repeat_steps, shape_of
from smgproxy.core.errors import BadBody
from tests.api.reading import fault, read

USER = '{"role":"user","content":"a"}'


def chat(*more: str, messages: str = USER) -> bytes:
    """A chat's body."""
    return ",".join(['{"model":"m"', f'"messages":[{messages}]', *more]).encode() + b"}"


def message(more: str, role: str = "user") -> bytes:
    """A chat's body with more in its message."""
    text = f'{{"role":"{role}","content":"a",{more}}}'
    return chat(messages=f"{USER},{text}")


FUNCTION = '"function":{"name":"f"}'
MODELLED = {
    "model": chat('"model":"m"'),
    "temperature": chat('"temperature":1,"temperature":1'),
    "n": chat('"n":null,"n":null'),
    "stream": chat('"stream":true,"str\\u0065am":false'),
    "tools[1].type": chat(
        f'"tools":[{{"type":"a",{FUNCTION}}},{{"type":"a",{FUNCTION},"type":"b"}}]'
    ),
    "tools[0].function.name": chat(
        '"tools":[{"type":"a","function":{"name":"a","parameters":{},"name":"b"}}]'
    ),
    "tool_choice.function.name": chat(
        f'"tools":[{{"type":"a",{FUNCTION}}}]',
        '"tool_choice":{"type":"function","function":{"name":"f","name":"f"}}',
    ),
    "tool_choice.tools[0].name": chat(
        f'"tools":[{{"type":"a",{FUNCTION}}}]',
        '"tool_choice":{"type":"allowed_tools","mode":"auto",'
        '"tools":[{"type":"a","name":"f","name":"f"}]}',
    ),
    "response_format.type": chat('"response_format":{"type":"text","type":"text"}'),
    "response_format.json_schema.schema": chat(
        '"response_format":{"type":"json_schema",'
        '"json_schema":{"name":"a","schema":{},"schema":{}}}'
    ),
    "stream_options.include_usage": chat(
        '"stream":true,"stream_options":{"include_usage":true,"include_usage":false}'
    ),
    "thinking.type": chat('"thinking":{"type":"enabled","type":"disabled"}'),
    "chat_template_kwargs.thinking": chat(
        '"chat_template_kwargs":{"thinking":true,"thinking":false}'
    ),
    "messages[1].role": message('"role":"user"'),
    "messages[1].name": message('"name":"a","name":"b"'),
    "messages[1].reasoning": message('"reasoning":"","reasoning":""', "assistant"),
    "messages[1].tool_calls[0].id": message(
        f'"tool_calls":[{{"id":"a","id":"b",{FUNCTION}}}]', "assistant"
    ),
    "messages[1].tool_calls[0].function.arguments": message(
        '"tool_calls":[{"id":"a","function":'
        '{"name":"f","arguments":"{}","arguments":"[]"}}]',
        "assistant",
    ),
    "messages[1].tools[0].function.name": message(
        '"tools":[{"type":"function","function":{"name":"f","name":"g"}}]', "system"
    ),
    "messages[0].content[1].type": chat(
        messages='{"role":"user","content":[{},{"type":"file_url","type":"text"}]}'
    ),
    "messages[0].content[0].image_url.url": chat(
        messages='{"role":"user","content":'
        '[{"type":"image_url","image_url":{"url":"a","url":"b"}}]}'
    ),
}


@pytest.mark.parametrize("name", MODELLED)
def test_a_modelled_key_must_not_be_repeated(name: str) -> None:
    assert f"duplicate field `{name}`" in fault(MODELLED[name])


@pytest.mark.parametrize(
    ("route", "body", "name"),
    [
        ("completions", '{"model":"m","prompt":"a","prompt":"b"}', "prompt"),
        ("generate", '{"text":"a","input_ids":[1],"input_ids":[2]}', "input_ids"),
        ("embeddings", '{"model":"m","input":"a","model":"n"}', "model"),
        ("rerank", '{"query":"q","documents":["a"],"query":"q"}', "query"),
        ("classify", '{"model":"m","input":"a","input":"a"}', "input"),
        (
            "responses",
            '{"model":"m","input":[{"type":"a"},{"type":"a","type":"b"}]}',
            "input[1].type",
        ),
        (
            "messages",
            '{"model":"m","max_tokens":1,"messages":'
            '[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}',
            "messages[0].content[0].text",
        ),
        (
            "decisions",
            '{"model":"m","input":"a","questions":[{"type":"choice",'
            '"instructions":"i","choices":[{"value":"a"},{"value":"b","value":"c"}]}]}',
            "questions[0].choices[1].value",
        ),
    ],
)
def test_so_it_is_on_every_route(route: str, body: str, name: str) -> None:
    assert f"duplicate field `{name}`" in fault(body.encode(), route)


@pytest.mark.parametrize(
    "body",
    [
        chat('"zz":1,"yy":0,"zz":2'),
        chat('"zz":{"model":1,"model":2,"messages":[{"role":1,"role":2}]}'),
        message('"zz":1,"zz":{"role":1,"role":2}'),
        chat(
            '"tools":[{"type":"a","function":{"name":"f",'
            '"parameters":{"type":1,"type":2,"name":[{"name":1,"name":2}]}}}]'
        ),
        chat(
            '"response_format":{"type":"json_schema",'
            '"json_schema":{"name":"a","schema":{"name":1,"name":2}}}'
        ),
        chat(messages='{"role":"user","content":[{"type":"zz","zz":1,"zz":2}]}'),
        chat(messages='{"role":"user","content":"\\"role\\":1,\\"role\\":2"}'),
    ],
)
def test_an_unmodelled_key_is_the_workers_to_judge(body: bytes) -> None:
    assert read(body).body is body


NAMES = st.sampled_from(["model", "messages", "role", "tools", "function", "name", "z"])
TREES: Any = st.recursive(
    st.sampled_from(["1", '"{"', '"a\\"role\\":"', "[]"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ", ".join(items) + "]"),
        st.lists(st.tuples(NAMES, inner), max_size=4).map(
            lambda pairs: "{" + ",".join(f'"{k}" : {v}' for k, v in pairs) + "}"
        ),
    ),
)


class _Pairs(list[tuple[str, Any]]):
    """An object, repeated keys included."""


def _repeats(value: Any, shape: Shape | None) -> bool:
    """Whether a modelled key is there twice, the slow and obvious way."""
    if isinstance(value, _Pairs):
        keys = {} if shape is None else shape.keys
        names = [name for name, _ in value if name.encode() in keys]
        return len(set(names)) < len(names) or any(
            _repeats(inner, keys.get(name.encode())) for name, inner in value
        )
    return isinstance(value, list) and any(_repeats(each, shape) for each in value)


@given(st.lists(st.tuples(NAMES, TREES), max_size=5))
def test_the_look_for_repeated_keys_agrees_with_the_obvious_one(
    fields: list[tuple[str, str]],
) -> None:
    text = "{" + ",".join(f'"{name}": {tree}' for name, tree in fields) + "}"
    shape = shape_of(ChatRequest)
    assert shape is not None
    expected = _repeats(json.loads(text, object_pairs_hook=_Pairs), shape)
    try:
        for _ in repeat_steps(text.encode(), shape):
            pass
    except BadBody:
        assert expected
    else:
        assert not expected
