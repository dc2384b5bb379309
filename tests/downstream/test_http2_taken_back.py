"""Streams that clients take back, and what is kept of a client at most."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hyperframe.frame import (
    GoAwayFrame,
)

from smgproxy.core.errors import BodyAborted
from smgproxy.core.exchange import Verdict
from smgproxy.core.message import ResponseHead
from smgproxy.downstream.http2 import RESETS
from smgproxy.downstream.http2_stream import PAID_BYTES
from smgproxy.wire.http2 import PREFACE
from tests.downstream.h2_stage import (
    OPEN,
    REQUEST,
    Head,
    Http2Room,
    Taken,
    body_of,
    data,
    ended,
    headers,
    rst,
    settings,
    window,
)
from tests.downstream.stage import DATE, answer, begin

# -- streams that clients take back --------------------------------------------------


def test_rst_stream_calls_off_exactly_that_exchange() -> None:
    room = Http2Room()
    room.says(headers(1) + headers(3))
    first, second = room.exchanges
    stopped, goes_on = begin(first), begin(second)
    room.says(rst(1))
    assert first.verdict is Verdict.CLIENT_GONE
    assert stopped.is_ended, "the worker is let go at once"
    assert second.verdict is None
    goes_on.deliver(b"x", True)
    room.turn()
    assert body_of(room.frames(), 3) == b"x"
    assert room.listener.http2.resets == 1


def test_rst_stream_fails_the_upload() -> None:
    room = Http2Room()
    room.asks(OPEN + data(1, b"x"))
    room.says(rst(1))
    assert room.exchanges[0].request.is_ended
    assert not room.bodies[0].is_whole
    taken = Taken()
    room.exchanges[0].request.join(taken)
    assert isinstance(taken.error, BodyAborted)


def test_a_response_to_a_stream_taken_back_goes_nowhere() -> None:
    room = Http2Room()
    exchange = room.asks()
    room.says(rst(1))
    room.frames()
    exchange.response.start(ResponseHead(200, [DATE], None))
    exchange.response.flush()
    exchange.response.write(b"x")
    exchange.response.write(b"", True)
    room.turn()
    assert room.frames() == []


def take_back(room: Http2Room, count: int, begun: bytes = b"", end: bool = True) -> int:
    """Open streams and reset them, until the connection ends; how many."""
    for number in range(count):
        stream_id = 2 * number + 1
        body = data(stream_id, begun) if begun else b""
        room.says(headers(stream_id, REQUEST, end) + body + rst(stream_id))
        if room.transport.is_eof_written:
            return number
    return count


def test_streams_taken_back_before_their_answer_are_counted() -> None:
    room = Http2Room()
    assert RESETS <= take_back(room, 5000) < 4000
    assert [f.error_code for f in room.of_kind(GoAwayFrame)] == [11]
    assert room.listener.http2.errors == {11: 1}
    assert room.listener.http2.resets >= RESETS


FAULTS: dict[str, Callable[[int], bytes]] = {
    "an increment of 0": lambda stream_id: window(stream_id, 0),
    "a window that is too large": lambda stream_id: window(stream_id, 2**31 - 1),
    "DATA behind the end": lambda stream_id: data(stream_id, b"x"),
    "HEADERS behind the end": headers,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_client_that_has_its_streams_reset_is_no_better(fault: str) -> None:
    room = Http2Room()
    for stream_id in range(1, 8000, 2):
        room.says(headers(stream_id) + FAULTS[fault](stream_id))
        if room.transport.is_eof_written:
            break
    assert [f.error_code for f in room.of_kind(GoAwayFrame)] == [11]
    assert all(one.verdict is Verdict.CLIENT_GONE for one in room.exchanges)


@pytest.mark.parametrize("begun", [b"", b"x"])
def test_streams_taken_back_before_their_body_is_worth_it_are_counted(
    begun: bytes,
) -> None:
    room = Http2Room()
    assert take_back(room, 5000, begun, end=False) < 4000


def test_uploads_taken_back_are_not() -> None:
    room = Http2Room()
    assert take_back(room, 3000, b"x" * PAID_BYTES, end=False) == 3000
    answer(room.asks(headers(20001)))
    room.turn()
    assert ended(room.frames(), 20001)


def test_responses_taken_back_are_not() -> None:
    room = Http2Room()
    for stream_id in range(1, 4000, 2):
        source = begin(room.asks(headers(stream_id)))
        source.deliver(b"x")
        room.says(rst(stream_id))
    assert not room.transport.is_eof_written


# -- what is kept of a client --------------------------------------------------------


def test_a_client_cannot_make_the_gateway_keep_a_large_header_table() -> None:
    room = Http2Room(PREFACE + settings(header_table_size=2**32 - 1))
    room._decoder.max_allowed_table_size = 2**32 - 1
    for number in range(200):
        exchange = room.asks(headers(2 * number + 1))
        exchange.commit()
        exchange.response.start(ResponseHead(200, [(b"x-%d" % number, b"y" * 99)], 0))
        exchange.response.write(b"", True)
    room.turn()
    assert len(room.of_kind(Head)) == 200
    assert room._decoder.header_table_size <= 4096


def test_unknown_settings_are_not_kept() -> None:
    room = Http2Room()
    known = len(room.connection._side._h2.remote_settings)
    pairs = b"".join(n.to_bytes(2, "big") + b"\0\0\0\1" for n in range(16, 2700))
    room.says(len(pairs).to_bytes(3, "big") + b"\4\0\0\0\0\0" + pairs)
    assert not room.transport.is_eof_written
    assert len(room.connection._side._h2.remote_settings) == known


# -- what a client's frames cost -----------------------------------------------------


def test_very_many_frames_of_one_read_take_several_turns() -> None:
    room = Http2Room()
    before = len(room.transport.events)
    room.says(window(0, 1) * 2500 + headers())
    assert room.transport.events[before:] == ["pause_reading", "resume_reading"] * 2
    assert room.transport.is_reading()
    assert len(room.exchanges) == 1


def test_frames_stay_in_order_over_the_turns() -> None:
    room = Http2Room()
    room.says(OPEN, data(1, b"x") * 1500 + data(1, b"y", True), headers(3))
    assert room.bodies[0].body == b"x" * 1500 + b"y"
    assert room.bodies[0].is_whole
    assert len(room.exchanges) == 2


@pytest.mark.parametrize("how", ["resets", "error", "drain"])
def test_a_connection_may_end_between_those_turns(how: str) -> None:
    room = Http2Room()
    room.asks()
    room.transport.peer_sends(window(0, 1) * 2500)
    assert not room.transport.is_reading()
    if how == "resets":
        room.transport.peer_resets()
    elif how == "error":
        room.connection._end(1)
    else:
        room.listener.drain()
        answer(room.exchanges[0])
    room.turn()
    if how != "resets":
        assert room.transport.is_eof_written
        assert room.transport.is_reading(), "for the client's end of the connection"
        room.transport.peer_closes()
    room.turn()
    assert room.listener.open_connections == 0
