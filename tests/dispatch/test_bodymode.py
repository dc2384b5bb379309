"""The table of buffering and streaming, row by row and in its order."""

from __future__ import annotations

import dataclasses

import pytest

from smgproxy.core.message import Headers, RequestHead
from smgproxy.dispatch.bodymode import BodyPath, BodyRules, choose_path

MIB = 1024 * 1024
TOKENS = (b"x-smg-routing-tokens", b"1,2,3")


class State:
    """A fleet and its policies, as far as the table asks."""

    def __init__(self, *facts: str) -> None:
        self.reads_text = "reads_text" in facts
        self.has_many_models = "has_many_models" in facts
        self.edits_bodies = "edits_bodies" in facts


def head(length: int | None = 100, *extra: tuple[bytes, bytes]) -> RequestHead:
    headers: Headers = list(extra)
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    return RequestHead("POST", "/generate", "", headers, content_length=length)


def path(
    request: RequestHead, *facts: str, rules: BodyRules = BodyRules()
) -> tuple[str, str]:
    chosen: BodyPath = choose_path(request, rules, State(*facts))
    return ("streamed" if chosen.is_streamed else "buffered", chosen.reason)


# In the contract's order: with each line the condition of that reason goes away.
ROWS = (
    ("routing_key_override", "has_key_override"),
    ("policy_needs_text", "reads_text"),
    ("model_ambiguous", "has_many_models"),
    ("worker_mutates_body", "edits_bodies"),
    ("wasm_request_hook", "has_request_hook"),
)
RULES = {field.name for field in dataclasses.fields(BodyRules)}


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_the_first_condition_that_holds_gives_the_reason(row: int) -> None:
    holding = [condition for _, condition in ROWS[row:]]
    rules = BodyRules(**{name: True for name in holding if name in RULES})
    assert path(head(None), *holding, rules=rules) == ("buffered", ROWS[row][0])


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_each_condition_alone_buffers_what_would_stream(row: int) -> None:
    reason, condition = ROWS[row]
    rules = BodyRules(retries_enabled=False)
    if condition in RULES:
        rules = dataclasses.replace(rules, **{condition: True})
    assert path(head(9 * MIB), condition, rules=rules) == ("buffered", reason)


def test_a_body_without_a_length_buffers() -> None:
    rules = BodyRules(retries_enabled=False)
    assert path(head(None), rules=rules) == ("buffered", "no_content_length")
    bodiless = RequestHead("POST", "/generate", "", [], content_length=0)
    assert path(bodiless, rules=rules) == ("buffered", "no_content_length")


@pytest.mark.parametrize(
    ("length", "limit", "expected"),
    [
        (0, MIB, ("buffered", "retryable")),
        (MIB, MIB, ("buffered", "retryable")),
        (MIB + 1, MIB, ("streamed", "retry_forfeited")),
        (1, 0, ("streamed", "retry_forfeited")),
        (0, 0, ("streamed", "retry_forfeited")),
    ],
)
def test_with_retries_the_length_decides(
    length: int, limit: int, expected: tuple[str, str]
) -> None:
    assert path(head(length), rules=BodyRules(max_buffered_bytes=limit)) == expected


@pytest.mark.parametrize("length", [0, 1, MIB, 9 * MIB])
def test_without_retries_every_length_streams(length: int) -> None:
    rules = BodyRules(retries_enabled=False)
    assert path(head(length), rules=rules) == ("streamed", "pure_forward")


def test_with_fallbacks_of_models_nothing_streams() -> None:
    fallbacks = BodyRules(has_fallbacks=True)
    assert path(head(9 * MIB), rules=fallbacks) == ("buffered", "model_fallback")
    once = dataclasses.replace(fallbacks, retries_enabled=False)
    assert path(head(1), rules=once) == ("buffered", "model_fallback")
    # What buffers anyway does so for the contract's reason.
    assert path(head(1), rules=fallbacks) == ("buffered", "retryable")
    assert path(head(None), rules=fallbacks) == ("buffered", "no_content_length")


def test_a_valid_token_hint_stands_in_for_the_text() -> None:
    assert path(head(9 * MIB, TOKENS), "reads_text") == ("streamed", "retry_forfeited")
    assert path(head(9, TOKENS), "reads_text") == ("buffered", "retryable")


@pytest.mark.parametrize(
    "hint",
    [
        (b"x-smg-routing-tokens", b"1, 2"),
        (b"x-smg-routing-tokens", b",".join([b"1"] * 513)),
        (b"x-smg-routing-tokens", b""),
        (b"x-smg-routing-key", b"user-7"),
    ],
)
def test_no_other_hint_does(hint: tuple[bytes, bytes]) -> None:
    expected = ("buffered", "policy_needs_text")
    assert path(head(9 * MIB, hint), "reads_text") == expected
