"""A client's windows and its socket: what does not fit waits, and holds its source."""

from __future__ import annotations

import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    PingFrame,
)

from smgproxy.core.exchange import Exchange, Phase
from smgproxy.core.flow import Source
from smgproxy.downstream.http2 import MAX_UNREAD_BYTES
from smgproxy.wire.http2 import PREFACE
from smgproxy.wire.http2_output import TURN_BYTES
from smgproxy.wire.http2_serving import ServingSide
from tests.downstream.h2_stage import (
    HELLO,
    Http2Room,
    body_of,
    ended,
    headers,
    ping,
    settings,
    window,
)
from tests.downstream.stage import answer, begin

WIDE = HELLO + window(0, 2**30)


# -- the client's windows ------------------------------------------------------------


def fill(room: Http2Room, size: int, stream_id: int = 1) -> tuple[Exchange, Source]:
    """A streamed response of which ``size`` bytes have come."""
    exchange = room.asks(headers(stream_id))
    source = begin(exchange)
    source.deliver(b"x" * size)
    room.turn()
    return exchange, source


def test_what_a_streams_window_does_not_take_waits_and_holds_its_source() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=100))
    _, source = fill(room, 250)
    assert len(body_of(room.frames(), 1)) == 100
    assert source.is_held
    room.says(window(1, 100))
    assert len(body_of(room.frames(), 1)) == 100
    assert source.is_held
    room.says(window(1, 100))
    assert len(body_of(room.frames(), 1)) == 50
    assert not source.is_held
    source.deliver(b"y" * 50, True)
    room.turn()
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"y" * 50, True)


def test_what_the_connections_window_does_not_take_waits() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=1_000_000))
    _, first = fill(room, 60_000, 1)
    _, second = fill(room, 60_000, 3)
    frames = room.frames()
    assert len(body_of(frames, 1)) + len(body_of(frames, 3)) == 65535
    assert (first.is_held, second.is_held) == (False, True)
    room.says(window(0, 1_000_000))
    assert len(body_of(room.frames(), 3)) == 120_000 - 65535
    assert not second.is_held


def test_the_end_waits_behind_the_bytes() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=2))
    exchange = room.asks()
    answer(exchange, b"abcd")
    room.turn()
    assert exchange.phase != Phase.DONE
    room.says(window(1, 1))
    assert not ended(room.frames(), 1)
    room.says(window(1, 1))
    assert ended(room.frames(), 1)
    assert exchange.phase == Phase.DONE


def test_an_end_without_bytes_needs_no_window() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=0))
    source = begin(room.asks())
    source.deliver(b"", True)
    room.turn()
    assert ended(room.frames(), 1)


def test_an_end_alone_waits_for_the_bytes_before_it() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=0))
    source = begin(room.asks())
    source.deliver(b"ab")
    source.deliver(b"", True)
    room.turn()
    assert not ended(room.frames(), 1)
    room.says(window(1, 5))
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"ab", True)


def test_a_larger_initial_window_lets_what_waits_go_on() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=0))
    answer(room.asks(), b"abcd")
    room.turn()
    assert body_of(room.frames(), 1) == b""
    room.says(settings(initial_window_size=3))
    assert body_of(room.frames(), 1) == b"abc"
    room.says(settings(initial_window_size=4))
    assert ended(room.frames(), 1)


def test_a_window_may_become_negative_and_is_paid_off_first() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=100))
    _, source = fill(room, 80)
    room.says(settings(initial_window_size=0))
    source.deliver(b"y" * 10, True)
    room.turn()
    assert body_of(room.frames(), 1) == b"x" * 80
    room.says(window(1, 80))
    assert body_of(room.frames(), 1) == b""
    room.says(window(1, 9))
    assert body_of(room.frames(), 1) == b"y" * 9
    room.says(window(1, 1))
    assert ended(room.frames(), 1)


def test_frames_are_as_long_as_the_client_allows() -> None:
    room = Http2Room(WIDE + settings(initial_window_size=2**20))
    answer(room.asks(), b"x" * 40_000)
    room.turn()
    assert [len(f.data) for f in room.of_kind(DataFrame)] == [16384, 16384, 7232]
    room.says(settings(max_frame_size=32768))
    answer(room.asks(headers(3)), b"x" * 40_000)
    room.turn()
    assert [len(f.data) for f in room.of_kind(DataFrame)] == [32768, 7232]


def test_a_large_response_leaves_turn_by_turn_and_its_siblings_between() -> None:
    room = Http2Room(WIDE + settings(initial_window_size=2**30))
    room.says(headers(1) + headers(3))
    answer(room.exchanges[0], b"x" * (4 * TURN_BYTES))
    answer(room.exchanges[1], b"y")
    room.turn()
    frames = room.frames()
    assert len(body_of(frames, 1)) == 4 * TURN_BYTES
    assert max(map(len, room.transport.syscalls)) < TURN_BYTES + 4096
    last = [f.stream_id for f in frames if "END_STREAM" in f.flags]
    assert last == [3, 1]


def test_a_drain_in_mid_turn_does_not_make_a_response_forget_to_go_on() -> None:
    room = Http2Room(WIDE + settings(initial_window_size=2**30))
    room.says(headers(1) + headers(3) + headers(5))
    answer(room.exchanges[0], b"x" * (2 * TURN_BYTES))
    room.listener.drain()  # writes, and so begins another turn's share
    answer(room.exchanges[1], b"y" * 10)
    answer(room.exchanges[2], b"z" * 10)
    room.turn()
    frames = room.frames()
    assert all(ended(frames, stream_id) for stream_id in (1, 3, 5))


def test_a_flood_of_window_updates_looks_at_what_waits_once_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=0))
    room.says(b"".join(headers(stream_id) for stream_id in range(1, 201, 2)))
    for exchange in room.exchanges:
        answer(exchange)
    room.turn()
    looks = 0
    asked = ServingSide.local_flow_control_window

    def count(side: ServingSide, stream_id: int) -> int:
        nonlocal looks
        looks += 1
        return asked(side, stream_id)

    monkeypatch.setattr(ServingSide, "local_flow_control_window", count)
    room.says(window(0, 1) * 1000)
    assert 0 < looks <= 200


# -- the socket ----------------------------------------------------------------------


def test_a_client_that_does_not_read_holds_every_source_and_frees_it_again() -> None:
    room = Http2Room(WIDE + settings(initial_window_size=2**30))
    sources = [begin(room.asks(headers(stream_id))) for stream_id in (1, 3)]
    room.turn()
    room.transport.peer_stalls()
    sources[0].deliver(b"x" * 100_000)
    room.turn()
    assert room.transport.is_writing_paused
    assert all(source.is_held for source in sources)
    room.transport.peer_reads()
    room.turn()
    assert not any(source.is_held for source in sources)
    sources[0].deliver(b"", True)
    sources[1].deliver(b"y", True)
    room.turn()
    frames = room.frames()
    assert len(body_of(frames, 1)) == 100_000
    assert body_of(frames, 3) == b"y"


def test_room_in_the_socket_frees_no_source_whose_window_is_shut() -> None:
    room = Http2Room(WIDE + settings(initial_window_size=10))
    _, shut = fill(room, 20)
    room.says(headers(3) + window(3, 2**20))
    room.transport.peer_stalls()
    other = begin(room.exchanges[1])
    other.deliver(b"y" * 100_000)
    room.turn()
    room.transport.peer_reads()
    room.turn()
    assert not other.is_held
    assert shut.is_held
    room.says(window(1, 10))
    assert not shut.is_held


def test_what_is_written_to_a_client_that_does_not_read_stays_bounded() -> None:
    room = Http2Room(WIDE + settings(initial_window_size=2**30))
    room.transport.peer_stalls()
    for stream_id in range(1, 101, 2):
        source = begin(room.asks(headers(stream_id)))
        for _ in range(10):
            if not source.is_held:
                source.deliver(b"x" * 65536)
                room.turn()
    assert room.transport.get_write_buffer_size() < 2 * TURN_BYTES
    room.transport.peer_reads()
    room.turn()
    assert not room.transport.is_writing_paused


def test_a_client_that_reads_no_answer_to_its_pings_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("smgproxy.wire.http2.FREE_FRAMES", 1e9)  # it has its own test
    room = Http2Room()
    room.transport.peer_stalls()
    for _ in range(1000):
        room.says(ping() * 100)
        if room.transport.is_eof_written:
            break
    assert room.listener.http2.errors == {11: 1}
    assert room.transport.get_write_buffer_size() < 2 * MAX_UNREAD_BYTES


def test_a_ping_is_answered_with_its_own_bytes() -> None:
    room = Http2Room()
    room.says(ping(b"whatever"))
    (frame,) = room.of_kind(PingFrame)
    assert (frame.opaque_data, "ACK" in frame.flags) == (b"whatever", True)


def test_a_flood_of_pings_ends_the_connection() -> None:
    room = Http2Room()
    room.says(*[ping() * 50] * 40)
    assert [f.error_code for f in room.of_kind(GoAwayFrame)] == [11]
    assert room.listener.http2.errors == {11: 1}
