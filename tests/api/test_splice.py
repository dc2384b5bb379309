"""Edits in steps: what they make, and that nothing else of the body changes."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from smgproxy.api.edits import FlatEdits
from smgproxy.api.splice import spliced

SPACE = st.sampled_from(["", " ", "\n", " \t "])
VALUES = st.sampled_from(
    ["1", "1.50", '"a"', '",}"', "null", "[]", '[ {"a":[1,"]"]} , 2]', '{"a":{"b":1}}']
)
NAMES = st.sampled_from(["a", "b", "c", "d", "\\u0065"])


def in_steps(body: bytes, edits: FlatEdits) -> bytes:
    """The edited body."""
    steps = spliced(body, edits)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            assert isinstance(done.value, bytes)
            return done.value


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """The text of an object, spelled in some odd way."""
    names = draw(st.lists(NAMES, unique=True, max_size=5))
    fields = [
        f'{draw(SPACE)}"{name}"{draw(SPACE)}:{draw(SPACE)}{draw(VALUES)}{draw(SPACE)}'
        for name in names
    ]
    return f"{draw(SPACE)}{{{','.join(fields) or draw(SPACE)}}}{draw(SPACE)}".encode()


EDITS = st.dictionaries(
    st.sampled_from(["a", "b", "c", "e", "new"]),
    st.sampled_from([b"7", b'"}"', b'{"x":[]}', None]),
    max_size=4,
)


@given(objects(), EDITS)
@example(b'{"a":1,"b":2}', {"a": None, "b": None})
@example(b'{"a":1}', {"a": None, "new": b"2"})
@example(b'{"c":1,"a":1,"b":2}', {"a": None, "b": None, "new": b"2"})
def test_an_edit_is_made_and_the_order_kept(body: bytes, edits: FlatEdits) -> None:
    expected: dict[str, Any] = json.loads(body)
    for name, value in edits.items():
        if value is not None:
            expected[name] = json.loads(value)
        else:
            expected.pop(name, None)
    made = json.loads(in_steps(body, edits))
    assert list(made.items()) == list(expected.items())


def test_what_no_edit_touches_keeps_its_bytes() -> None:
    body = b'{ "z" : 1.50,"a":[ 1,\n2 ],"z":2, "b" : {"a":1} , "\\u0063":"d" }'
    assert in_steps(body, {"a": b"0"}) == (
        b'{ "z" : 1.50,"a":0,"z":2, "b" : {"a":1} , "\\u0063":"d"}'
    )
    assert in_steps(body, {"b": None, "n": b"1"}) == (
        b'{ "z" : 1.50,"a":[ 1,\n2 ],"z":2,  "\\u0063":"d","n":1}'
    )
