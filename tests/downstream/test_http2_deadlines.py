"""How long an HTTP/2 client may take, seen by the sweep of a hand-wound clock."""

from __future__ import annotations

import pytest
from hyperframe.frame import GoAwayFrame, RstStreamFrame

from smgproxy.core.errors import BodyStalled
from smgproxy.core.exchange import Verdict
from smgproxy.core.flow import Hold
from smgproxy.wire.http2 import PREFACE
from tests.downstream.h2_stage import (
    HELLO,
    OPEN,
    REQUEST,
    Http2Room,
    Taken,
    block,
    body_of,
    data,
    ended,
    headers,
    in_pieces,
    ping,
    raw,
    settings,
    window,
)
from tests.downstream.stage import answer, begin
from tests.fakes.clock import FakeClock

PIECES = in_pieces(1, block(REQUEST), *range(1, 20))
WIDE = HELLO + window(0, 2**30) + settings(initial_window_size=2**30)


def continuations() -> list[bytes]:
    """One header block, frame by frame."""
    found, at = [], 0
    while at < len(PIECES):
        stop = at + 9 + int.from_bytes(PIECES[at : at + 3], "big")
        found.append(PIECES[at:stop])
        at = stop
    return found


@pytest.mark.parametrize("said", [b"", PREFACE[:9], PREFACE, HELLO[:-1]])
def test_a_client_that_never_says_hello_is_gone_in_time(
    said: bytes, clock: FakeClock
) -> None:
    room = Http2Room(said, header_read_timeout_secs=30, idle_connection_timeout_secs=40)
    assert room.is_open_after(clock, 30)
    assert not room.is_open_after(clock, 11)


@pytest.mark.parametrize(
    "rest", [headers()[:5], headers()[:-1], PIECES[:15], ping()[:9]]
)
def test_a_head_that_stays_incomplete_ends_the_connection(
    rest: bytes, clock: FakeClock
) -> None:
    room = Http2Room(header_read_timeout_secs=30, idle_connection_timeout_secs=0)
    assert room.is_open_after(clock, 1000)
    room.says(rest)
    assert room.is_open_after(clock, 30)
    assert not room.is_open_after(clock, 1)


def test_a_head_that_drips_has_no_more_time_than_one_that_stalls(
    clock: FakeClock,
) -> None:
    room = Http2Room(header_read_timeout_secs=30)
    first, *rest = continuations()
    room.says(first)
    for piece in rest[:3]:
        assert room.is_open_after(clock, 10)
        room.says(piece)
    assert not room.is_open_after(clock, 1)


def test_a_head_that_is_whole_in_time_is_served(clock: FakeClock) -> None:
    room = Http2Room(header_read_timeout_secs=30)
    for piece in continuations():
        room.says(piece)
        assert room.is_open_after(clock, 1)
    assert room.is_open_after(clock, 1000)
    assert len(room.exchanges) == 1


def test_a_stalled_head_takes_its_siblings_along(clock: FakeClock) -> None:
    room = Http2Room(header_read_timeout_secs=30)
    exchange = room.asks()
    room.says(headers(3)[:-1])
    assert not room.is_open_after(clock, 31)
    assert exchange.verdict is Verdict.CLIENT_GONE


def test_an_idle_connection_is_told_and_closed_in_time(clock: FakeClock) -> None:
    room = Http2Room(idle_connection_timeout_secs=90)
    assert room.is_open_after(clock, 60)
    answer(room.asks())
    assert room.is_open_after(clock, 90)
    room.frames()
    assert not room.is_open_after(clock, 1)
    assert [f.error_code for f in room.of_kind(GoAwayFrame)] == [0]


def test_pings_do_not_keep_a_connection_open(clock: FakeClock) -> None:
    room = Http2Room(idle_connection_timeout_secs=90)
    for _ in range(9):
        room.says(ping())
        assert room.is_open_after(clock, 10)
    assert not room.is_open_after(clock, 1)


def test_a_client_that_does_not_close_behind_goaway_is_cut(clock: FakeClock) -> None:
    room = Http2Room()
    room.listener.drain()
    room.turn()
    room.connection.sweep(clock.now + 2)
    assert not room.transport.is_lost
    room.connection.sweep(clock.now + 2.1)
    assert room.transport.is_lost


def test_what_comes_behind_the_end_is_not_read(clock: FakeClock) -> None:
    room = Http2Room()
    room.listener.drain()
    room.says(headers() + raw(0xAB, b"x" * 20_000))
    assert room.exchanges == []
    assert len(room.of_kind(GoAwayFrame)) == 1


def test_deadlines_of_0_are_none(clock: FakeClock) -> None:
    room = Http2Room(
        header_read_timeout_secs=0,
        idle_connection_timeout_secs=0,
        stream_body_stall_timeout_secs=0,
        client_send_timeout_secs=0,
    )
    room.says(PIECES[:15])
    assert room.is_open_after(clock, 1e6)


def test_an_upload_that_stalls_fails_and_its_sibling_does_not(
    clock: FakeClock,
) -> None:
    room = Http2Room(stream_body_stall_timeout_secs=10)
    room.says(OPEN + headers(3, end=False))
    for _ in range(3):
        assert room.is_open_after(clock, 9)
        room.says(data(3, b"x"))
    assert isinstance(room.bodies[0].error, BodyStalled)
    assert room.bodies[1].error is None
    answer(room.exchanges[0], b"late", 408)
    room.turn()
    frames = room.frames()
    assert ended(frames, 1)
    resets = [f for f in frames if isinstance(f, RstStreamFrame)]
    assert [(f.stream_id, f.error_code) for f in resets] == [(1, 0)]


@pytest.mark.parametrize("nothing", [data(), data(pad=200)], ids=["empty", "padding"])
def test_data_of_nothing_is_no_sign_of_life(nothing: bytes, clock: FakeClock) -> None:
    room = Http2Room(stream_body_stall_timeout_secs=10)
    room.says(OPEN)
    for _ in range(3):
        assert room.is_open_after(clock, 5)
        room.says(nothing)
    assert isinstance(room.bodies[0].error, BodyStalled)


def test_an_upload_that_is_held_does_not_stall(clock: FakeClock) -> None:
    room = Http2Room(stream_body_stall_timeout_secs=10)
    exchange = room.asks(OPEN)
    exchange.request.hold(Hold.SINK_FULL)
    assert room.is_open_after(clock, 100)
    exchange.request.release(Hold.SINK_FULL)
    assert room.is_open_after(clock, 9)
    assert room.bodies[0].error is None
    assert room.is_open_after(clock, 2)
    assert isinstance(room.bodies[0].error, BodyStalled)


def test_an_upload_that_nobody_reads_yet_does_not_stall(clock: FakeClock) -> None:
    room = Http2Room(stream_body_stall_timeout_secs=10)
    room.is_joining = False
    exchange = room.asks(OPEN)
    assert room.is_open_after(clock, 100)
    assert not exchange.request.is_ended
    taken = Taken()
    exchange.request.join(taken)
    assert room.is_open_after(clock, 9)
    assert taken.error is None
    assert room.is_open_after(clock, 2)
    assert isinstance(taken.error, BodyStalled)


def test_a_body_whose_response_has_begun_may_take_its_time(clock: FakeClock) -> None:
    room = Http2Room(stream_body_stall_timeout_secs=10)
    source = begin(room.asks(OPEN))
    assert room.is_open_after(clock, 100)
    assert room.bodies[0].error is None
    source.deliver(b"", True)


def test_a_stream_whose_window_stays_shut_is_reset_and_its_sibling_is_not(
    clock: FakeClock,
) -> None:
    room = Http2Room(
        PREFACE + settings(initial_window_size=10), client_send_timeout_secs=60
    )
    room.says(headers(1) + headers(3))
    shut, slow = (begin(exchange) for exchange in room.exchanges)
    shut.deliver(b"x" * 100)
    slow.deliver(b"y" * 100)
    for _ in range(3):
        room.turn()
        room.says(window(3, 1))
        assert room.is_open_after(clock, 30)
    resets = room.of_kind(RstStreamFrame)
    assert [(f.stream_id, f.error_code) for f in resets] == [(1, 8)]
    assert room.exchanges[0].verdict is Verdict.CLIENT_GONE
    assert (shut.is_ended, slow.is_ended) == (True, False)


def test_a_response_that_has_nothing_to_send_has_no_deadline(clock: FakeClock) -> None:
    room = Http2Room(client_send_timeout_secs=60)
    source = begin(room.asks())
    source.deliver(b"x")
    assert room.is_open_after(clock, 1e6)
    source.deliver(b"y", True)
    room.turn()
    assert body_of(room.frames(), 1) == b"xy"


def test_a_client_whose_socket_takes_nothing_is_cut_in_time(clock: FakeClock) -> None:
    room = Http2Room(WIDE, client_send_timeout_secs=60)
    source = begin(room.asks())
    room.transport.peer_stalls()
    source.deliver(b"x" * 200_000)
    room.turn()
    assert room.is_open_after(clock, 59)
    room.transport.peer_reads(10_000)
    assert room.is_open_after(clock, 59), "it reads, however slowly"
    assert room.is_open_after(clock, 59)
    assert not room.is_open_after(clock, 2)
    assert source.is_ended
