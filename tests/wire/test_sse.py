"""Where an event ends, and the events the gateway writes itself."""

from __future__ import annotations

import pytest

from smgproxy.wire.sse import ANTHROPIC_PING, PING, ends_event, error_event


@pytest.mark.parametrize(
    "tail", [b"", b"x\n\n", b"x\r\n\r\n", b"x\r\r", b"x\n\r\n", b"\n\n"]
)
def test_an_event_ends_with_a_blank_line(tail: bytes) -> None:
    assert ends_event(tail)


@pytest.mark.parametrize(
    "tail", [b"x", b"data: x\n", b"data: x\r\n", b"data: x\r", b"\n\nd", b"\r\n"]
)
def test_anything_else_is_inside_an_event(tail: bytes) -> None:
    assert not ends_event(tail)


def test_pings_are_whole_events() -> None:
    assert PING == b": ping\n\n"
    assert ANTHROPIC_PING == b'event: ping\ndata: {"type":"ping"}\n\n'


def test_error_ends_an_openai_stream_with_done() -> None:
    assert error_event("boom", b"}\n\n", is_anthropic=False) == (
        b'data: {"error":{"message":"Stream error: boom","type":"stream_error"}}\n\n'
        b"data: [DONE]\n\n"
    )


def test_error_ends_an_anthropic_stream_alone() -> None:
    assert error_event("boom", b"}\n\n", is_anthropic=True) == (
        b"event: error\n"
        b'data: {"type":"error","error":{"type":"api_error",'
        b'"message":"Stream error: boom"}}\n\n'
    )


def test_error_inside_an_event_is_set_off_by_a_blank_line() -> None:
    assert error_event("x", b'data: {"a', is_anthropic=False).startswith(b"\n\ndata: ")
    assert error_event("x", b"", is_anthropic=False).startswith(b"data: ")


def test_a_cause_with_line_ends_stays_one_line() -> None:
    event = error_event("a\nb\r\rdata: c", b"", is_anthropic=False)
    assert event.count(b"\n") == 4
    assert b"\r" not in event
