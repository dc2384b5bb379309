"""Heads, the same whatever protocol carried them."""

from __future__ import annotations

from smgproxy.core.message import (
    FORWARDED_TO_WORKER,
    WITHHELD_FROM_CLIENT,
    RequestHead,
    ResponseHead,
)


def test_first_value_of_a_repeated_name_counts() -> None:
    head = RequestHead("GET", "/", "", [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
    assert head.first == {b"a": b"1", b"b": b"2"}


def test_a_request_without_framing_has_no_body() -> None:
    head = RequestHead("GET", "/", "", [])
    assert head.content_length == 0
    assert head.keeps_alive
    assert not head.expects_continue


def test_get_finds_the_first_value_or_nothing() -> None:
    head = ResponseHead(200, [(b"a", b"1"), (b"a", b"2")], None)
    assert head.get(b"a") == b"1"
    assert head.get(b"b") is None


def test_framing_and_hop_by_hop_fields_pass_in_neither_direction() -> None:
    own = {b"connection", b"keep-alive", b"te", b"trailer", b"upgrade"}
    own |= {b"transfer-encoding", b"content-length", b"proxy-authorization"}
    assert own <= WITHHELD_FROM_CLIENT
    assert not own & FORWARDED_TO_WORKER


def test_names_that_only_the_gateway_may_say_are_withheld() -> None:
    own = {b"x-smg-error-code", b"x-smg-routed-worker-id", b"x-request-id"}
    assert own <= WITHHELD_FROM_CLIENT


def test_no_list_has_a_name_that_no_head_can_have() -> None:
    for name in FORWARDED_TO_WORKER | WITHHELD_FROM_CLIENT:
        assert name == name.lower().strip()
