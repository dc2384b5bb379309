"""What JSON a body must be, beyond what the decoder asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.api.outline import outline_of
from smgproxy.api.strict import (
    MAX_DEPTH,
    MAX_OBJECTS,
    has_more,
    has_repeats,
    has_spaced_keys,
    refuse_bad_text,
    refuse_deep,
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


def is_too_deep(body: bytes) -> bool:
    """Whether a body is refused."""
    try:
        refuse_deep(body)
    except BadBody as error:
        assert "nested deeper than 127 levels" in error.message
        return True
    return False


@given(VALUES, st.integers(MAX_DEPTH - 12, MAX_DEPTH + 1), st.booleans())
def test_depth_is_counted_whatever_stands_in_strings(
    value: Any, around: int, is_list: bool
) -> None:
    before, after = ("[", "]") if is_list else ('{"k":', "}")
    text = before * around + json.dumps(value) + after * around
    # Beside it, more than may nest, so that a count of brackets says nothing.
    body = f"[{text}{',[[]]' * 200}]"
    assert is_too_deep(body.encode()) == (1 + around + depth(value) > MAX_DEPTH)


def test_depth_is_counted_across_steps() -> None:
    wide = b'"[",[],' * 40_000  # of which a step takes a part
    for level in (MAX_DEPTH, MAX_DEPTH + 1):
        inner = level // 2
        text = b"[" * inner + wide + b"[" * (level - inner) + b"]" * level
        assert is_too_deep(text) == (level > MAX_DEPTH)


def test_a_body_has_no_more_objects_than_are_allowed() -> None:
    refuse_deep(b"[" + b"{}," * MAX_OBJECTS + b"1]")
    with pytest.raises(BadBody, match="has more than 131072 objects"):
        refuse_deep(b"[" + b"{}," * (MAX_OBJECTS + 1) + b"1]")
    refuse_deep(b'["' + b"{" * (MAX_OBJECTS + 1) + b'"]')


def test_names_of_an_outline_are_kept_in_order_and_repeated() -> None:
    outline = outline_of(b'{"a":1, "b":{"a":2} ,"a":3}')
    fields = [(name.text, bytes(raw)) for name, raw in outline.items()]
    assert fields == [("a", b"1"), ("b", b'{"a":2}'), ("a", b"3")]


@pytest.mark.parametrize("space", [" ", "\t", "\n", "\r", " \n "])
def test_space_before_a_colon_is_noticed(space: str) -> None:
    assert has_spaced_keys(b'{"a"%b:1}' % space.encode())
    assert not has_spaced_keys(b'{%b"a":%b1}' % (space.encode(), space.encode()))


def test_brackets_are_counted_up_to_a_number() -> None:
    assert has_more(b"[[[", b"[", 2)
    assert not has_more(b"[[[", b"[", 3)
    assert has_more(b"", b"[", -1)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}', False),
        (b'{"a":1,"a":2}', True),
        (b'{"a":1,"\\u0061":2}', True),
        (b'[[{"b":[{"a":{},"a":{}}]}]]', True),
        (b'{"a":%b,"b":1e999}' % (b"9" * 5000), False),
        (b'{"a":%b,"a":1e999}' % (b"9" * 5000), True),
        (b'{"a":"\\":","a\\"":1}', False),
        (b'{"a":"\\u0022:","b":1,"b":1}', True),
        (b'{"a":"\\"\\u003a","b":1,"b":1}', True),
        (b'{"a\\\\":1,"a\\\\":1,"b\\/":"\\":"}', True),
    ],
)
def test_any_key_that_is_there_twice_is_found(body: bytes, found: bool) -> None:
    assert has_repeats(body, -1) == has_repeats(body, body.count(b'":')) == found


STRINGS = st.sampled_from(
    ['"a"', '"b"', '"\\":"', '"\\\\"', '"\\u0022:"', '"\\"\\u003a"', '"\\u0061"', '":"']
)
TEXTS: Any = st.recursive(
    STRINGS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[" + ",".join(items) + "]"),
        st.lists(st.tuples(STRINGS, inner), max_size=3).map(
            lambda pairs: "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}"
        ),
    ),
)


@given(TEXTS)
def test_a_count_of_keys_finds_the_same_as_a_look_at_each_object(text: str) -> None:
    body = text.encode()
    assert has_repeats(body, body.count(b'":')) == has_repeats(body, -1)


@pytest.mark.parametrize("bad", [b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5aaa"])
def test_bytes_that_are_no_utf_8_are_refused_with_their_place(bad: bytes) -> None:
    refuse_bad_text("é".encode())
    with pytest.raises(BadBody, match="invalid UTF-8 at byte 4"):
        refuse_bad_text(b"abcd" + bad)
