"""Request ids: taken, replaced or made (admin: request ids)."""

from __future__ import annotations

import re

import pytest

from smgproxy.core.message import Headers, RequestHead
from smgproxy.dispatch.identity import RequestIds


def head(*headers: tuple[bytes, bytes], path: str = "/v1/embeddings") -> RequestHead:
    fields: Headers = list(headers)
    return RequestHead("POST", path, "", fields)


def is_fresh(made: bytes, prefix: bytes = b"req-") -> bool:
    return re.fullmatch(re.escape(prefix) + b"[A-Za-z0-9]{24}", made) is not None


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/v1/chat/completions", b"chatcmpl-"),
        ("/v1/completions", b"cmpl-"),
        ("/generate", b"gnt-"),
        ("/v1/responses", b"resp-"),
        ("/v1/messages", b"msg_"),
        ("/v1/messages/count_tokens", b"req-"),
        ("/v1/responses/resp_1", b"req-"),
        ("/v1/embeddings", b"req-"),
        ("/generate/", b"req-"),
        ("/", b"req-"),
    ],
)
def test_a_fresh_id_has_its_paths_prefix(path: str, prefix: bytes) -> None:
    assert is_fresh(RequestIds().choose(head(path=path)), prefix)


def test_fresh_ids_differ_however_many_are_made() -> None:
    ids = RequestIds()
    made = {ids.choose(head()) for _ in range(2_000)}
    assert len(made) == 2_000
    assert all(is_fresh(one) for one in made)


def test_two_gateways_make_different_ids() -> None:
    assert RequestIds().choose(head()) != RequestIds().choose(head())


@pytest.mark.parametrize("value", [b"x", b"a" * 128, b'!"#$%&()*+,-./:;<=>?@[]^_`{|}~'])
def test_a_usable_value_is_taken_as_it_is(value: bytes) -> None:
    assert RequestIds().choose(head((b"x-request-id", value))) == value


@pytest.mark.parametrize(
    "value",
    [b"", b"a b", b"a\tb", b"a" * 129, b"a\xe9", "é".encode(), b"a\x7f"],
)
def test_an_unusable_value_is_replaced(value: bytes) -> None:
    assert is_fresh(RequestIds().choose(head((b"x-request-id", value))))


def test_the_default_names_are_tried_in_their_order() -> None:
    names = [b"x-request-id", b"x-correlation-id", b"x-trace-id", b"request-id"]
    while names:
        # Sent in reverse: the list's order counts, not the client's.
        sent = [(name, b"from-" + name) for name in reversed(names)]
        assert RequestIds().choose(head(*sent)) == b"from-" + names.pop(0)


def test_later_names_do_not_make_up_for_an_unusable_value() -> None:
    sent = ((b"x-request-id", b"a b"), (b"x-correlation-id", b"good"))
    assert is_fresh(RequestIds().choose(head(*sent)))


def test_the_first_of_repeated_values_counts() -> None:
    sent = ((b"x-request-id", b"first"), (b"x-request-id", b"second"))
    assert RequestIds().choose(head(*sent)) == b"first"


def test_given_names_replace_the_default_ones_and_keep_their_order() -> None:
    ids = RequestIds(("X-Second", "X-First"))
    both = ((b"x-first", b"1"), (b"x-second", b"2"))
    assert ids.choose(head(*both)) == b"2"
    assert ids.choose(head(both[0])) == b"1"
    assert is_fresh(ids.choose(head((b"x-request-id", b"not-asked"))))
