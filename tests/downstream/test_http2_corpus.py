"""The corpus against a connection: whole, and a byte at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hyperframe.frame import GoAwayFrame, RstStreamFrame

from smgproxy.core.exchange import Verdict
from tests.downstream.h2_case import Bad, Good
from tests.downstream.h2_corpus import GOOD, STREAM
from tests.downstream.h2_corpus_connection import CONNECTION
from tests.downstream.h2_stage import HELLO, Head, Http2Room, headers
from tests.downstream.stage import answer

NEXT = 101


def whole(data: bytes) -> Iterator[bytes]:
    if data:
        yield data


def bytewise(data: bytes) -> Iterator[bytes]:
    # A megabyte of it proves nothing more than its beginning and its end.
    few = 4096
    yield from (data[at : at + 1] for at in range(min(len(data), few)))
    yield from (data[at : at + 1021] for at in range(few, len(data), 1021))


WAYS = {"whole": whole, "bytewise": bytewise}
of_ways = pytest.mark.parametrize("way", WAYS)


def ids(case: Good | Bad) -> str:
    return f"{case.section} {case.name}"


def play(case: Good | Bad, way: str) -> Http2Room:
    room = Http2Room(b"")
    hello = HELLO
    if isinstance(case, Bad):
        hello, room.is_joining = case.hello, case.is_read
    room.says(*WAYS[way](hello + case.data))
    return room


def check_nothing_was_served(room: Http2Room, heads: int) -> None:
    """No more requests than were well-formed, all of them called off by now."""
    assert len(room.exchanges) == heads
    for exchange in room.exchanges:
        assert exchange.verdict is Verdict.CLIENT_GONE
        assert exchange.request.is_ended


@of_ways
@pytest.mark.parametrize("case", GOOD, ids=ids)
def test_served(case: Good, way: str) -> None:
    room = play(case, way)
    frames = room.frames()
    assert not [f for f in frames if isinstance(f, RstStreamFrame | GoAwayFrame)]
    bodies = [taken.body for taken in room.bodies if taken.is_whole]
    assert tuple(bodies) == case.bodies
    assert room.listener.malformed == {}


@of_ways
@pytest.mark.parametrize("case", STREAM, ids=ids)
def test_a_stream_error_ends_the_stream_and_nothing_else(case: Bad, way: str) -> None:
    room = play(case, way)
    frames = room.frames()
    assert not [f for f in frames if isinstance(f, GoAwayFrame)]
    resets = [f for f in frames if isinstance(f, RstStreamFrame)]
    if case.status:
        refusals = [f for f in frames if isinstance(f, Head)]
        assert [f.fields[b":status"] for f in refusals] == [b"%d" % case.status]
        assert "END_STREAM" in refusals[0].flags
        assert all(f.error_code == 0 for f in resets)
    else:
        assert [(f.stream_id, f.error_code) for f in resets] == [(1, case.code)]
        assert room.listener.http2.errors == {case.code: 1}
    check_nothing_was_served(room, case.heads)
    exchange = room.asks(headers(NEXT))
    assert len(room.exchanges) == case.heads + 1
    answer(exchange)
    room.turn()
    assert room.of_kind(Head)[0].fields[b":status"] == b"200"


@of_ways
@pytest.mark.parametrize("case", CONNECTION, ids=ids)
def test_a_connection_error_is_named_and_ends_it(case: Bad, way: str) -> None:
    room = play(case, way)
    ends = room.of_kind(GoAwayFrame)
    assert [frame.error_code for frame in ends] == [case.code]
    assert room.transport.is_eof_written
    assert room.listener.http2.errors == {case.code: 1}
    check_nothing_was_served(room, case.heads)
    room.says(headers(NEXT))
    assert len(room.exchanges) == case.heads
    room.transport.peer_closes()
    room.turn()
    assert room.listener.open_connections == 0


def test_the_corpus_is_as_large_as_it_says() -> None:
    cases = [ids(case) for case in (*GOOD, *STREAM, *CONNECTION)]
    assert len(cases) == len(set(cases)) >= 150
