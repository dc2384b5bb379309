"""Where an event ends, against a reader of server-sent events (WHATWG HTML 9.2.6)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.flow import Source
from smgproxy.wire.sse import PING, ends_event
from tests.core.scripted import ScriptedSink

LINES = st.lists(st.sampled_from(["", "", "data: x", ": c", "a"]), max_size=8)
MIXED = st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"x", b"data: y"]), max_size=12
)


def events_of(stream: bytes) -> list[list[bytes]]:
    """The events a client sees: the lines before each blank line, comments dropped."""
    lines = re.split(rb"\r\n|\n|\r", stream)[:-1]
    events: list[list[bytes]] = [[]]
    for line in lines:
        if not line:
            events.append([])
        elif not line.startswith(b":"):
            events[-1].append(line)
    return [event for event in events[:-1] if event]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
@given(lines=LINES)
def test_streams_of_one_kind_of_line_end(line_end: bytes, lines: list[str]) -> None:
    stream = b"".join(line.encode() + line_end for line in ["data: 0", *lines])
    assert ends_event(stream[-4:]) == (not ["x", *lines][-1])


@given(st.lists(MIXED.map(b"".join), max_size=6), st.integers(0, 5))
def test_a_ping_between_events_changes_no_event(pieces: list[bytes], at: int) -> None:
    before, after = b"".join(pieces[:at]), b"".join(pieces[at:])
    if ends_event(before):
        assert events_of(before + PING + after) == events_of(before + after)


@given(st.lists(MIXED.map(b"".join), max_size=8))
def test_a_sources_tail_tells_as_much_as_the_whole_stream(pieces: list[bytes]) -> None:
    source = Source()
    source.join(ScriptedSink())
    for piece in pieces:
        source.deliver(piece)
    assert ends_event(source.tail) == ends_event(b"".join(pieces))
