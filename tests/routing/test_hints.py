"""What a client's headers say about where its request should run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.routing.hints import (
    TOKENS_HEADER,
    lineage,
    routing_key,
    target_index,
    token_hint,
    valid_rid,
)

_MOST = ",".join(["7"] * 512)


def _tokens(value: bytes) -> tuple[int, ...] | None:
    return token_hint({b"x-smg-routing-tokens": value})


def _key(value: bytes) -> str | None:
    return routing_key({b"x-smg-routing-key": value})


def test_no_header_is_no_hint() -> None:
    assert token_hint({}) is None
    assert routing_key({}) is None


@pytest.mark.parametrize(
    "value, tokens",
    [
        (b"0", (0,)),
        (b"128000,791,4062", (128000, 791, 4062)),
        (b"4294967295", (4294967295,)),
        (_MOST.encode(), (7,) * 512),
    ],
)
def test_a_list_of_ids_is_a_hint(value: bytes, tokens: tuple[int, ...]) -> None:
    assert _tokens(value) == tokens


def test_leading_zeros_pass_and_change_nothing() -> None:
    assert _tokens(b"01,1") == (1, 1)


@pytest.mark.parametrize(
    "value",
    [b"", b",", b"1,", b",1", b"1,,2", b"1, 2", b" 1", b"1 ", b"+1", b"-1", b"1\n"]
    + [b"1_0", b"0x1", b"1.0", b"a", "١".encode(), b"\xff", b"4294967296"],
)
def test_a_malformed_list_is_as_if_absent(value: bytes) -> None:
    assert _tokens(value) is None


def test_the_513th_id_makes_the_hint_absent() -> None:
    assert _tokens(f"{_MOST},7".encode()) is None


def test_a_hint_may_have_4096_bytes_and_no_more() -> None:
    assert _tokens(b"0" * 4095 + b"9") == (9,)
    assert _tokens(b"0" * 4096 + b"9") is None


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (None, None),
        (b"", None),
        (b"0", 1),
        (b"128000,791,4062", 3),
        (b"4294967295", 1),
        (b"4294967296", None),
        (b"1,", None),
        (b",1", None),
        (b"1, 2", None),
        (b"+1", None),
        (b"-1", None),
        (b"a", None),
        (b",".join([b"1"] * 512), 512),
        (b",".join([b"1"] * 513), None),
        (b",".join([b"123456789"] * 500), None),
    ],
)
def test_the_ids_of_a_hint_are_counted(value: bytes | None, count: int | None) -> None:
    tokens = token_hint({} if value is None else {TOKENS_HEADER: value})
    assert (None if tokens is None else len(tokens)) == count


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=370))
def test_every_list_within_the_limits_is_read_back(ids: list[int]) -> None:
    assert _tokens(",".join(map(str, ids)).encode()) == tuple(ids)


@given(st.binary(max_size=5000))
def test_no_bytes_make_a_hint_an_error(value: bytes) -> None:
    _tokens(value)
    _key(value)


@pytest.mark.parametrize("value", [b"k", b"a key", "ключ".encode(), b"k" * 128])
def test_a_key_is_any_text_up_to_128_bytes(value: bytes) -> None:
    assert _key(value) == value.decode()


@pytest.mark.parametrize("value", [b"", b"k" * 129, b"\xff", b"k\xc3"])
def test_another_key_is_as_if_absent(value: bytes) -> None:
    assert _key(value) is None


def test_the_first_valid_key_of_the_listed_headers_counts() -> None:
    first = {b"x-a": b"", b"x-b": b"k" * 129, b"x-c": b"third", b"x-d": b"fourth"}
    assert routing_key(first, (b"x-none", b"x-a", b"x-b", b"x-c", b"x-d")) == "third"


def test_a_listed_name_replaces_the_usual_one() -> None:
    assert routing_key({b"x-smg-routing-key": b"k"}, (b"x-a",)) is None


@pytest.mark.parametrize(
    "rid, key",
    [
        ("conv_t2", "conv"),
        ("conv_t2_r1", "conv"),
        ("conv_r1", "conv"),
        ("conv_t1_t2", "conv_t1"),
        ("conv_r1_t2", "conv_r1"),
        ("conv_t", "conv_t"),
        ("conv_tx1", "conv_tx1"),
        ("conv_T2", "conv_T2"),
        ("conv_t٣", "conv_t٣"),
        ("conv_t1\n", "conv_t1\n"),
        ("_t1", "_t1"),
        ("_t1_r2", "_t1_r2"),
    ],
)
def test_turns_and_retries_of_a_conversation_have_one_key(rid: str, key: str) -> None:
    assert lineage(rid) == key
    assert valid_rid(rid) == key


def test_a_rid_counts_by_its_length_without_suffixes() -> None:
    assert valid_rid("k" * 128 + "_t1") == "k" * 128
    for unfit in ("k" * 129, "é" * 65, "", None):
        assert valid_rid(unfit) is None


@pytest.mark.parametrize(
    "value, index",
    [(b"0", 0), (b"00", 0), (b"+1", 1), (b" 1", 1), (b"12", 12), (b"", None)]
    + [(bad, -1) for bad in (b"-1", b"x", b"1.0", b"+", b"1 2", b"9" * 99)],
)
def test_a_target_is_an_index_and_a_bad_one_is_none_of_them(
    value: bytes, index: int | None
) -> None:
    assert target_index({b"x-smg-target-worker": value}) == index


def test_no_target_is_asked_for_without_the_header() -> None:
    assert target_index({}) is None
