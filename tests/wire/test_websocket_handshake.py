"""The opening handshake, sans I/O."""

from __future__ import annotations

import pytest

from smgproxy.core.message import RequestHead, ResponseHead
from smgproxy.wire.websocket_handshake import (
    BadHandshake,
    Offer,
    answer_fields,
    browser_key,
    read_answer,
    read_offer,
    request_fields,
)
from tests.fakes.websocket import ACCEPT, KEY, accept_of

_FIELDS = {
    b"sec-websocket-version": b"13",
    b"sec-websocket-key": KEY,
}


def _head(*more: tuple[bytes, bytes], upgrade: bytes = b"websocket") -> RequestHead:
    head = RequestHead("GET", "/", "", [*_FIELDS.items(), *more])
    head.upgrade = upgrade
    return head


def _protocol(value: bytes) -> tuple[bytes, bytes]:
    return (b"sec-websocket-protocol", value)


def _extension(value: bytes) -> tuple[bytes, bytes]:
    return (b"sec-websocket-extensions", value)


def test_the_accept_of_the_rfcs_example() -> None:
    offer = read_offer(_head())
    nonce, _ = request_fields(offer)
    agreed = read_answer(offer, nonce, _answer(nonce))
    assert answer_fields(offer, agreed) == [(b"sec-websocket-accept", ACCEPT.encode())]


def _answer(nonce: bytes, *more: tuple[bytes, bytes]) -> ResponseHead:
    fields = [(b"sec-websocket-accept", accept_of(nonce)), *more]
    return ResponseHead(101, fields, None)


def test_each_worker_gets_a_key_of_its_own() -> None:
    offer = read_offer(_head())
    first, fields = request_fields(offer)
    second, _ = request_fields(offer)
    assert first != second and len(first) == 24
    assert (b"sec-websocket-key", first) in fields


def test_subprotocols_are_read_over_all_lines() -> None:
    offer = read_offer(_head(_protocol(b"a,b"), _protocol(b" c ,, d")))
    assert offer.protocols == [b"a", b"b", b"c", b"d"]
    assert not offer.has_browser_key


def test_a_browsers_key_is_found_and_not_offered() -> None:
    head = _head(_protocol(b"realtime, openai-insecure-api-key.sk-1, beta"))
    assert browser_key(head) == b"sk-1"
    offer = read_offer(head)
    assert offer.protocols == [b"realtime", b"beta"]
    assert offer.has_browser_key
    _, fields = request_fields(offer)
    assert b"sk-1" not in b"".join(value for _, value in fields)


@pytest.mark.parametrize("value", [b"", b"realtime", b"openai-insecure-api-key."])
def test_no_key_is_no_key(value: bytes) -> None:
    assert browser_key(_head(_protocol(value))) is None


def test_only_compression_is_offered_on() -> None:
    value = b'x-a; p="1,2", permessage-deflate; client_max_window_bits, x-b'
    offer = read_offer(_head(_extension(value)))
    assert offer.extensions == [b"permessage-deflate; client_max_window_bits"]


@pytest.mark.parametrize(
    "field, offered, is_good",
    [
        (_protocol(b"b"), _protocol(b"a, b"), True),
        (_protocol(b"c"), _protocol(b"a, b"), False),
        (_protocol(b"B"), _protocol(b"a, b"), False),
        (_protocol(b"a, b"), _protocol(b"a, b"), False),
        (_protocol(b"a"), _extension(b"x"), False),
        (_extension(b"permessage-deflate"), _extension(b"permessage-deflate"), True),
        (_extension(b"permessage-deflate"), _extension(b"x-other"), False),
        (_extension(b"x"), _extension(b"permessage-deflate"), False),
        (_extension(b"permessage-deflate,x"), _extension(b"permessage-deflate"), False),
    ],
)
def test_what_was_not_offered_cannot_be_agreed(
    field: tuple[bytes, bytes], offered: tuple[bytes, bytes], is_good: bool
) -> None:
    offer = read_offer(_head(offered))
    nonce, _ = request_fields(offer)
    if is_good:
        read_answer(offer, nonce, _answer(nonce, field))
    else:
        with pytest.raises(BadHandshake):
            read_answer(offer, nonce, _answer(nonce, field))


def test_a_wrong_accept_is_refused() -> None:
    offer = read_offer(_head())
    with pytest.raises(BadHandshake):
        read_answer(offer, b"one", _answer(b"other"))


@pytest.mark.parametrize("is_there", [True, False])
def test_a_browser_gets_realtime_if_the_worker_chose_nothing(is_there: bool) -> None:
    listed = b"realtime, " if is_there else b""
    value = listed + b"openai-insecure-api-key.k"
    offer = read_offer(_head(_protocol(value)))
    assert isinstance(offer, Offer)
    nonce, _ = request_fields(offer)
    fields = answer_fields(offer, read_answer(offer, nonce, _answer(nonce)))
    assert (_protocol(b"realtime") in fields) is is_there


def test_http2_has_neither_key_nor_accept() -> None:
    head = RequestHead(
        "CONNECT", "/", "", [(b"sec-websocket-version", b"13")], is_http2=True
    )
    head.upgrade = b"websocket"
    offer = read_offer(head)
    nonce, _ = request_fields(offer)
    agreed = read_answer(offer, nonce, _answer(nonce))
    assert answer_fields(offer, agreed) == []
