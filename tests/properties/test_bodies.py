"""Valid bodies of any content reach the worker as the client wrote them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.api.reading import read

NUMBERS = st.sampled_from(
    ["0.10", "1E5", "-0", "1.50", "123456789012345678901234567890", "1e-7", "0e400"]
)
STRINGS = st.sampled_from(['"\\u00e9"', '"é"', '"\\/"', '"[{"', '"\\\\\\""', '""'])
VALUES: Any = st.recursive(
    st.one_of(NUMBERS, STRINGS, st.sampled_from(["null", "true", "[ ]", "{ }"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + " ,".join(items) + "]"),
        st.lists(st.tuples(STRINGS, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{k} : {v}" for k, v in pairs) + "}"
        ),
    ),
    max_leaves=8,
)
UNKNOWN = st.lists(
    st.tuples(st.sampled_from(["zz", "aa", "é", "tool_stream2"]), VALUES), max_size=4
)
MODELLED = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.sampled_from(["1", "1.0", "0.60", "null"]),
        "top_p": st.sampled_from(["0.95", "0.950", "null"]),
        "stream": st.sampled_from(["true", "false", "null"]),
        "logit_bias": st.just('{"1" : 0.50}'),
        "metadata": VALUES,
        "reasoning_effort": st.sampled_from(['"high"', '"\\u006cow"', "null"]),
    },
)
MESSAGES = st.lists(
    st.tuples(st.sampled_from(["user", "assistant", "system"]), UNKNOWN),
    min_size=1,
    max_size=3,
).map(
    lambda messages: "["
    + ", ".join(
        '{"role":"%s", "content": "\\u0041"%s}'
        % (role, "".join(f", {json.dumps(k)}: {v}" for k, v in extra))
        for role, extra in messages
    )
    + "]"
)
# A model, and the fields that its profile may change.
MODELS = st.sampled_from(
    [
        ("m", set()),
        ("nick", {"model"}),
        ("kimi-k2", {"stream_options"}),
        (
            "kimi-k3",
            {
                *("temperature", "top_p", "presence_penalty", "frequency_penalty"),
                *("n", "stream_options"),
            },
        ),
        ("glm-4.6", {"temperature", "top_p", "tool_stream"}),
        ("deepseek-v4-pro", {"chat_template_kwargs"}),
        ("MiniMax-M2", set()),
    ]
)


@st.composite
def chats(draw: st.DrawFn) -> tuple[str, set[str]]:
    """A valid chat, spelled in some odd way, and the fields that may change."""
    model, touched = draw(MODELS)
    fields = [("model", json.dumps(model)), ("messages", draw(MESSAGES))]
    fields += [*draw(MODELLED).items(), *draw(UNKNOWN)]
    fields = draw(st.permutations(fields))
    text = " ,".join(f"{json.dumps(name)} : {value}" for name, value in fields)
    return "{" + text + " }", touched


@given(chats(), st.sampled_from(["50", "5e1", "0.5"]))
def test_a_number_as_effort_changes_no_other_field(
    chat: tuple[str, set[str]], effort: str
) -> None:
    text, _ = chat
    body = _fields(text.encode()) | {
        "model": b'"m"',
        "reasoning_effort": effort.encode(),
    }
    sent = b",".join(b"%b : %b" % (json.dumps(n).encode(), v) for n, v in body.items())
    after = _fields(read(b"{" + sent + b"}").body)
    assert after.pop("reasoning_effort").startswith(b'"')
    del body["reasoning_effort"]
    assert list(after.items()) == list(body.items())


@given(chats())
def test_every_untouched_field_keeps_its_raw_text(chat: tuple[str, set[str]]) -> None:
    text, touched = chat
    sent = text.encode()
    received = read(sent, aliases={"nick": "m"}).body
    if not touched:
        assert received is sent
    before, after = _fields(sent), _fields(received)
    names = [name for name in before if name not in touched]
    assert [name for name in after if name not in touched] == names
    assert {name: after[name] for name in names} == {
        name: before[name] for name in names
    }


ROLES = st.lists(
    st.tuples(st.sampled_from(["root", "user", "system"]), UNKNOWN),
    min_size=1,
    max_size=4,
)


@given(ROLES)
def test_messages_that_change_their_place_keep_all_but_their_role(
    messages: list[tuple[str, list[tuple[str, str]]]],
) -> None:
    sent = [_message(role, *more) for role, more in messages]
    body = b'{"model":"abab7","messages":[%b]}' % b" , ".join(sent)
    received = _messages(read(body).body)
    roots = [one for one, (role, _) in zip(sent, messages) if role == "root"]
    others = [one for one, (role, _) in zip(sent, messages) if role != "root"]
    assert received[len(roots) :] == others
    for before, after in zip(roots, received[: len(roots)], strict=True):
        assert _fields(after) == _fields(before) | {"role": b'"system"'}


@given(ROLES, st.sampled_from(["[]", "null", '{"a" : 1.50}']))
def test_messages_that_lose_their_tools_keep_all_else(
    messages: list[tuple[str, list[tuple[str, str]]]], tools: str
) -> None:
    sent = [
        (
            _message("system", ("tools", tools), *more)
            if role == "root"
            else _message(role, *more)
        )
        for role, more in messages
    ]
    received = _messages(read(b'{"model":"m","messages":[%b]}' % b",".join(sent)).body)
    for before, after in zip(sent, received, strict=True):
        fields = _fields(before)
        if fields.pop("tools", None) is None:
            assert after == before
        assert list(_fields(after).items()) == list(fields.items())


def _message(role: str, *more: tuple[str, str]) -> bytes:
    fields = [("role", f'"{role}"'), ("content", '"\\u0041"'), *more]
    pairs = [f"{json.dumps(name)} : {value}" for name, value in fields]
    return ("{ " + ", ".join(pairs) + "}").encode()


def _messages(body: bytes) -> list[bytes]:
    raws = msgspec.json.decode(_fields(body)["messages"], type=list[msgspec.Raw])
    return [bytes(raw) for raw in raws]


def _fields(body: bytes) -> dict[str, bytes]:
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return {name: bytes(raw) for name, raw in fields.items()}
