"""What JSON a body must be, beyond what the decoder asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api.strict import (
    MAX_DEPTH,
    depth_of,
    outline_of,
    refuse_bad_text,
    refuse_deep,
    refuse_repeated,
)
from smgproxy.core.errors import BadBody

VALUES: Any = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(st.sampled_from('"\\[]{}a\n'))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.sampled_from('"\\[]{}b')), inner, max_size=3),
    ),
)


def depth(value: Any) -> int:
    """How deep a value nests, the slow and obvious way."""
    if isinstance(value, dict):
        return 1 + max(map(depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth, value), default=0)
    return 0


@given(VALUES)
def test_depth_is_counted_whatever_stands_in_strings(value: Any) -> None:
    assert depth_of(json.dumps(value).encode()) == depth(value)


def test_names_of_an_outline_are_kept_in_order_and_repeated() -> None:
    outline = outline_of(b'{"a":1, "b":{"a":2} ,"a":3}')
    fields = [(name.text, bytes(raw)) for name, raw in outline.items()]
    assert fields == [("a", b"1"), ("b", b'{"a":2}'), ("a", b"3")]


def test_a_modelled_key_must_not_be_repeated() -> None:
    outline = outline_of(b'{"zz":1,"model":"a","mod\\u0065l":"b","zz":2}')
    refuse_repeated(outline, ("n",))
    with pytest.raises(BadBody, match="duplicate field `model`"):
        refuse_repeated(outline, ("n", "model"))
    with pytest.raises(BadBody, match=r"duplicate field `messages\[3\].model`"):
        refuse_repeated(outline, ("model",), "messages", 3)


def test_nesting_may_reach_the_limit_and_not_more() -> None:
    level = MAX_DEPTH - 1
    refuse_deep(outline_of(b'{"a":%b%b}' % (b"[" * level, b"]" * level)), 1)
    level += 1
    with pytest.raises(BadBody, match="nested deeper than 127 levels"):
        refuse_deep(outline_of(b'{"a":%b%b}' % (b"[" * level, b"]" * level)), 1)


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5aaa"])
def test_bytes_that_are_no_utf_8_are_refused_with_their_place(bad: bytes) -> None:
    refuse_bad_text("é".encode())
    with pytest.raises(BadBody, match="invalid UTF-8 at byte 4"):
        refuse_bad_text(b"abcd" + bad)
