"""Edits of a body: one field replaced in place, or the top level made anew."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api.editing import Edits, edit_steps
from smgproxy.api.edits import replaced
from smgproxy.api.steps import at_once

NAMES = st.sampled_from(["a", "b", "\\u0061", 'x\\"a', "a\\\\"])
VALUES = st.sampled_from(
    ['"a"', "1.50", "[ 1 ]", '{"a":7}', '{"b":{"a" : 7}}', '"\\"a\\":1"', "null"]
)
SPACE = st.sampled_from(["", " ", "\n"])


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """The text of an object in which "a" may stand anywhere."""
    fields = draw(st.dictionaries(NAMES, VALUES, max_size=4))
    if "a" in fields:
        fields.pop("\\u0061", None)
    texts = [
        f'{draw(SPACE)}"{name}"{draw(SPACE)}:{draw(SPACE)}{value}{draw(SPACE)}'
        for name, value in fields.items()
    ]
    return f"{{{','.join(texts)}}}".encode()


@given(objects(), st.sampled_from([b"0", b'"new"', None]))
def test_an_edit_changes_one_field_and_no_other(
    body: bytes, value: bytes | None
) -> None:
    expected = json.loads(body)
    if value is None:
        expected.pop("a", None)
    else:
        expected["a"] = json.loads(value)
    assert list(json.loads(at_once(edit_steps(body, {"a": value}))).items()) == list(
        expected.items()
    )


def test_a_field_that_stands_in_the_body_once_is_replaced_in_place() -> None:
    body = b'{ "z":1.50 ,\n"a" : [1, 2],"y":"\\u4f60" } '
    assert replaced(body, {"a": b"0"}) == b'{ "z":1.50 ,\n"a" : 0,"y":"\\u4f60" } '


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"b":{"a":1}}',
        b'{"b":{"a":1}}',
        b'{"a":1,"b":"a"}',
        b'{"\\u0061":1,"b":{"a":1}}',
        b'{"x\\"a":1,"\\u0061":1}',
        b'{"b":1}',
    ],
)
def test_in_doubt_it_is_not(body: bytes) -> None:
    assert replaced(body, {"a": b"0"}) is None


@pytest.mark.parametrize(
    "body, edited",
    [
        (b'{"z":1.50}', b'{"z":1.50,"a":{"b":0}}'),
        (b'{"a":null,"z":1.50}', b'{"a":{"b":0},"z":1.50}'),
        (b'{"a":{ "b":1, "c":1e400},"b":2}', b'{"a":{ "b":0, "c":1e400},"b":2}'),
    ],
)
def test_an_object_inside_is_edited_or_made(body: bytes, edited: bytes) -> None:
    assert at_once(edit_steps(body, {"a": {"b": b"0"}})) == edited


MANY = b",".join(b'"k%d" :0' % number for number in range(50_000))


@pytest.mark.parametrize(
    "body, edits",
    [
        (b'{"a":1,"b":"a",%b}', {"a": b"0"}),
        (b'{"o":{"a":1,"b":"a",%b}}', {"o": {"a": b"0"}}),
        (b'{"a":{"a":{"b":1,"a":1,%b}}}', {"a": {"a": {"a": b"0"}}}),
    ],
)
def test_an_object_of_very_many_keys_is_edited_in_steps(
    body: bytes, edits: Edits
) -> None:
    body %= MANY
    steps = edit_steps(body, edits)
    for _ in range(10):
        next(steps)
    assert at_once(steps) == body.replace(b'"a":1', b'"a":0')
