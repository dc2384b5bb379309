"""What policies read of a request."""

from __future__ import annotations

import itertools

import pytest

from smgproxy.routing.request import RoutingRequest, pack_tokens, partition_of
from tests.routing.fleet import asked

HINT = {b"x-smg-routing-tokens": b"7,8"}


def test_text_is_read_once_and_only_when_asked_for() -> None:
    reads = itertools.count()
    request = asked("m", read_text=lambda: f"text {next(reads)}")
    assert [request.text, request.text] == ["text 0", "text 0"]
    assert next(reads) == 1


def test_a_request_without_a_readable_body_has_no_text() -> None:
    assert (RoutingRequest("m").text, RoutingRequest("m").tokens) == ("", b"")


def test_a_valid_token_hint_wins_over_the_body() -> None:
    request = asked("m", HINT, input_ids=[1, 2, 3])
    assert request.tokens == pack_tokens([7, 8])


@pytest.mark.parametrize("hint", [b"", b"1,", b"1, 2", b"+1", b"1," * 600 + b"1"])
def test_an_invalid_hint_leaves_everything_as_without_it(hint: bytes) -> None:
    headers = {b"x-smg-routing-tokens": hint}
    assert asked("m", headers, input_ids=[1]).tokens == pack_tokens([1])


@pytest.mark.parametrize("ids", [[-1], [2**32], [1.5], ["1"], []])
def test_ids_that_do_not_fit_are_no_ids(ids: list[int]) -> None:
    assert asked("m", input_ids=ids).tokens == b""


@pytest.mark.parametrize("model", [None, "unknown"])
def test_a_request_that_names_no_model_is_for_the_unknown_one(
    model: str | None,
) -> None:
    assert RoutingRequest(model).name == "unknown"


def test_empty_fields_make_no_partition() -> None:
    assert partition_of(None, "", None) == ""


def test_different_fields_make_different_partitions() -> None:
    fields = [("ab", "", None), ("a", "b", None), (None, "ab", None), ("1:a", "", "")]
    made = {partition_of(*each) for each in fields}
    assert len(made) == 4
    assert partition_of("s", "", None) == partition_of("s", None, "")
    assert all(len(one) == 16 for one in made)
