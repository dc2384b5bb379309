"""Bodies that HTTP/2 clients send: their windows are the only brake."""

from __future__ import annotations

from hyperframe.frame import (
    RstStreamFrame,
)

from smgproxy.core.errors import UpstreamError
from smgproxy.core.flow import Hold
from tests.downstream.h2_stage import (
    EXPECTING,
    OPEN,
    Head,
    Http2Room,
    Taken,
    body_of,
    credit,
    data,
    ended,
    headers,
    rst,
)
from tests.downstream.stage import answer, begin


def test_a_body_that_nobody_takes_gets_no_window_and_stops_no_sibling() -> None:
    room = Http2Room()
    room.is_joining = False
    room.says(OPEN + data(1, b"x" * 16384) * 3)
    assert 1 not in credit(room)
    room.is_joining = True
    room.says(headers(3, end=False), *[data(3, b"y" * 16384)] * 20)
    assert len(room.bodies[1].body) == 20 * 16384
    assert credit(room)[3] > 0
    assert room.transport.is_reading()


def test_a_large_read_of_a_body_lets_others_read_before_the_next() -> None:
    room = Http2Room()
    room.asks(OPEN)
    before = len(room.transport.events)
    room.says(data(1, b"x" * 16384) * 2)
    assert room.transport.events[before:] == ["pause_reading", "resume_reading"]
    assert len(room.bodies[0].body) == 2 * 16384


def test_a_body_that_is_taken_gets_its_window() -> None:
    room = Http2Room()
    room.is_joining = False
    exchange = room.asks(OPEN + data(1, b"x" * 16384) * 3)
    room.frames()
    sink = Taken()
    exchange.request.join(sink)
    room.turn()
    assert credit(room)[1] > 3 * 16384
    assert sink.body == b"x" * 3 * 16384


def test_a_sink_that_is_full_is_given_no_more_than_the_window() -> None:
    room = Http2Room()
    room.asks(OPEN)
    allowed = 65535 + credit(room)[1]
    exchange = room.exchanges[0]
    exchange.request.hold(Hold.SINK_FULL)
    sent = 0
    while sent + 16384 <= allowed:
        room.says(data(1, b"x" * 16384))
        sent += 16384
    assert 1 not in credit(room)
    assert room.bodies[0].body == b""
    exchange.request.release(Hold.SINK_FULL)
    room.turn()
    assert credit(room) == {1: sent}
    assert len(room.bodies[0].body) == sent


def test_the_connections_window_is_given_back_whoever_reads() -> None:
    room = Http2Room()
    room.is_joining = False
    given = 0
    for stream_id in range(1, 4000, 2):
        room.says(
            headers(stream_id, end=False)
            + data(stream_id, b"x" * 16384) * 3
            + rst(stream_id)
        )
        given += credit(room).get(0, 0)
    assert not room.transport.is_eof_written
    assert given > 2000 * 3 * 16384 - 2 * 16 * 1024 * 1024


def test_the_connections_window_is_given_back_for_what_comes_too_late() -> None:
    room = Http2Room()
    given = 0
    for stream_id in range(1, 2000, 2):
        answer(room.asks(headers(stream_id, end=False)))
        room.says(data(stream_id, b"x" * 16384) * 4)
        given += credit(room).get(0, 0)
    assert not room.transport.is_eof_written
    assert given > 1000 * 4 * 16384 - 16 * 1024 * 1024


def test_padding_is_given_back_as_well() -> None:
    room = Http2Room()
    room.asks(OPEN)
    room.frames()
    sent, given = 0, {0: 0, 1: 0}
    while sent < 5 * 1024 * 1024:
        room.says(data(1, b"x", pad=250) * 100)
        sent += 100 * 252
        for stream_id, size in credit(room).items():
            given[stream_id] += size
    assert given[1] >= sent - 512 * 1024 // 4
    assert given[0] >= 4 * 1024 * 1024


def test_a_body_sent_byte_by_byte_does_not_wait_byte_by_byte() -> None:
    room = Http2Room()
    room.is_joining = False
    exchange = room.asks(OPEN, data(1, b"ab") * 5000)
    assert len(exchange.request._backlog or ()) <= 10
    sink = Taken()
    exchange.request.join(sink)
    assert sink.body == b"ab" * 5000


def test_100_continue_is_said_when_somebody_reads() -> None:
    room = Http2Room()
    room.is_joining = False
    exchange = room.asks(EXPECTING)
    assert room.of_kind(Head) == []
    exchange.request.join(Taken())
    room.turn()
    (head,) = room.of_kind(Head)
    assert head.fields == {b":status": b"100"}
    room.says(data(1, b"x", True))
    answer(exchange)
    room.turn()
    assert [f.fields[b":status"] for f in room.of_kind(Head)] == [b"200"]


def test_100_continue_is_not_said_to_a_body_that_comes_anyway() -> None:
    room = Http2Room()
    room.is_joining = False
    exchange = room.asks(EXPECTING + data(1, b"x"))
    exchange.request.join(Taken())
    room.turn()
    assert room.of_kind(Head) == []


def test_trailers_are_dropped_and_end_the_body() -> None:
    room = Http2Room()
    room.asks(OPEN + data(1, b"x") + headers(1, ((b"x-sum", b"1"),)))
    assert (room.bodies[0].body, room.bodies[0].is_whole) == (b"x", True)


def test_an_early_answer_is_whole_and_stops_the_upload() -> None:
    room = Http2Room()
    exchange = room.asks(OPEN + data(1, b"x"))
    answer(exchange, b"no", 413)
    room.turn()
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"no", True)
    (reset,) = [f for f in frames if isinstance(f, RstStreamFrame)]
    assert (reset.stream_id, reset.error_code) == (1, 0)
    assert frames.index(reset) == len(frames) - 1
    room.says(data(1, b"more") * 3 + data(1, b"end", True))
    answer(room.asks(headers(3)))
    room.turn()
    assert ended(room.frames(), 3)


def test_a_body_released_behind_its_broken_response_asks_for_nothing() -> None:
    room = Http2Room()
    exchange = room.asks(OPEN)
    exchange.request.hold(Hold.SINK_FULL)
    room.says(data(1, b"x"))
    begin(exchange).fail(UpstreamError("broken"))
    exchange.request.release(Hold.SINK_FULL)
    room.turn()
    assert [f.error_code for f in room.of_kind(RstStreamFrame)] == [2]
