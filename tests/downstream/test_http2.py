"""Conversations of one HTTP/2 client, many exchanges at a time."""

from __future__ import annotations

import pytest
from hyperframe.frame import (
    DataFrame,
    GoAwayFrame,
    PingFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from smgproxy.core.errors import UpstreamError
from smgproxy.core.exchange import Phase, Verdict
from smgproxy.core.message import ResponseHead
from smgproxy.downstream.http1 import Http1Connection
from smgproxy.downstream.http2 import Http2Connection
from smgproxy.wire.http2 import PREFACE
from tests.downstream.h2_stage import (
    HELLO,
    OPEN,
    Head,
    Http2Room,
    body_of,
    data,
    ended,
    goaway,
    headers,
    ping,
    settings,
    upload,
    window,
    with_fields,
)
from tests.downstream.stage import DATE, answer, begin
from tests.fakes.transport import FakeTransport

# -- the beginning and the end of a connection -------------------------------------


def test_the_gateways_settings_come_first() -> None:
    room = Http2Room(b"", http2_max_concurrent_streams=7)
    room.turn()
    first, second = room.frames()
    assert isinstance(first, SettingsFrame)
    assert first.settings[SettingsFrame.MAX_CONCURRENT_STREAMS] == 7
    assert first.settings[SettingsFrame.MAX_HEADER_LIST_SIZE] == 65536
    assert isinstance(second, WindowUpdateFrame)
    assert second.stream_id == 0


def test_settings_are_acknowledged() -> None:
    room = Http2Room()
    room.says(settings(initial_window_size=1))
    (frame,) = room.of_kind(SettingsFrame)
    assert "ACK" in frame.flags


@pytest.mark.parametrize("step", [1, 7, 18, 24, 1000])
def test_prior_knowledge_is_noticed_however_its_bytes_come(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = Http2Room(b"")
    monkeypatch.setattr("asyncio.get_running_loop", lambda: room.loop)
    old = Http1Connection(room.listener)
    transport = room.transport = FakeTransport(old)
    told = HELLO + headers()
    room.says(*(told[at : at + step] for at in range(0, len(told), step)))
    assert isinstance(transport.get_protocol(), Http2Connection)
    assert len(room.exchanges) == 1
    answer(room.exchanges[0])
    room.turn()
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"ok", True)
    assert room.listener.open_connections == 2
    transport.peer_closes()
    room.turn()
    assert room.listener.open_connections == 1, "the other one is the room's own"


def test_a_preface_behind_a_request_of_http_1_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    room = Http2Room(b"")
    monkeypatch.setattr("asyncio.get_running_loop", lambda: room.loop)
    transport = FakeTransport(Http1Connection(room.listener))
    transport.peer_sends(b"GET /a HTTP/1.1\r\nhost: g\r\n\r\n")
    answer(room.exchanges[0])
    transport.peer_sends(PREFACE)
    assert b"HTTP/1.1 505 " in transport.sent


def test_a_drain_says_goaway_lets_what_runs_end_and_then_closes() -> None:
    room = Http2Room()
    source = begin(room.asks(headers(5)))
    room.listener.drain()
    room.turn()
    (last,) = room.of_kind(GoAwayFrame)
    assert (last.last_stream_id, last.error_code) == (5, 0)
    room.says(headers(7))
    (refusal,) = room.of_kind(RstStreamFrame)
    assert (refusal.stream_id, refusal.error_code) == (7, 7)
    assert len(room.exchanges) == 1
    assert not room.transport.is_eof_written
    source.deliver(b"x", True)
    room.turn()
    assert ended(room.frames(), 5)
    assert room.transport.is_eof_written
    room.transport.peer_closes()
    room.turn()
    assert room.listener.open_connections == 0


def test_a_drain_closes_an_idle_connection_at_once() -> None:
    room = Http2Room()
    room.listener.drain()
    room.turn()
    assert [f.error_code for f in room.of_kind(GoAwayFrame)] == [0]
    assert room.transport.is_eof_written


def test_a_drain_is_told_once() -> None:
    room = Http2Room()
    room.asks()
    room.listener.drain()
    room.listener.drain()
    room.turn()
    assert len(room.of_kind(GoAwayFrame)) == 1


def test_a_drain_has_nothing_to_say_to_a_client_whose_connection_has_failed() -> None:
    room = Http2Room()
    room.says(window(0, 0))
    assert room.transport.is_eof_written
    room.listener.drain()
    room.turn()
    assert len(room.of_kind(GoAwayFrame)) == 1


def test_goaway_of_the_client_lets_what_runs_end_and_then_closes() -> None:
    room = Http2Room()
    exchange = room.asks(headers() + goaway())
    assert not room.transport.is_eof_written
    answer(exchange)
    room.turn()
    assert ended(room.frames(), 1)
    assert room.transport.is_eof_written


def test_behind_goaway_of_the_client_its_uploads_and_windows_go_on() -> None:
    room = Http2Room(PREFACE + settings(initial_window_size=1))
    exchange = room.asks(upload(1, 4) + goaway())
    answer(exchange, b"ok")
    room.says(data(1, b"body", True) + ping() + window(1, 1))
    assert room.bodies[0].is_whole
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"ok", True)
    assert [f for f in frames if isinstance(f, PingFrame)]


def test_a_transport_that_cannot_half_close_is_closed() -> None:
    room = Http2Room(can_write_eof=False)
    room.listener.drain()
    assert room.transport.is_closing()


def test_a_client_that_hangs_up_takes_all_its_exchanges_along() -> None:
    room = Http2Room()
    room.says(*(headers(stream_id) for stream_id in (1, 3, 5)))
    source = begin(room.exchanges[0])
    room.transport.peer_closes()
    room.turn()
    assert [e.verdict for e in room.exchanges] == [Verdict.CLIENT_GONE] * 3
    assert source.is_ended
    assert room.listener.open_connections == 0


# -- many at a time ------------------------------------------------------------------


def test_many_requests_run_side_by_side_and_end_in_any_order() -> None:
    room = Http2Room()
    room.says(b"".join(headers(stream_id) for stream_id in range(1, 101, 2)))
    assert len(room.exchanges) == 50
    for number, exchange in reversed(list(enumerate(room.exchanges))):
        answer(exchange, b"answer %d" % number)
    room.turn()
    frames = room.frames()
    for number in range(50):
        assert body_of(frames, 2 * number + 1) == b"answer %d" % number
        assert ended(frames, 2 * number + 1)


def test_uploads_that_interleave_stay_apart() -> None:
    room = Http2Room()
    room.says(OPEN + headers(3, end=False))
    for _ in range(10):
        room.says(data(1, b"a") + data(3, b"b"))
    room.says(data(3, end=True) + data(1, b"!", True))
    assert [taken.body for taken in room.bodies] == [b"a" * 10 + b"!", b"b" * 10]
    assert all(taken.is_whole for taken in room.bodies)


def test_the_responses_of_one_turn_leave_in_one_write() -> None:
    room = Http2Room()
    room.says(headers(1) + headers(3) + headers(5))
    before = len(room.transport.syscalls)
    for exchange in room.exchanges:
        answer(exchange)
    assert len(room.transport.syscalls) == before
    room.turn()
    assert len(room.transport.syscalls) == before + 1
    assert len(room.of_kind(Head)) == 3


def test_one_stream_more_than_allowed_is_refused_and_no_other() -> None:
    room = Http2Room(http2_max_concurrent_streams=2)
    room.says(headers(1) + headers(3) + headers(5))
    (refusal,) = room.of_kind(RstStreamFrame)
    assert (refusal.stream_id, refusal.error_code) == (5, 7)
    assert (len(room.exchanges), room.listener.http2.refused) == (2, 1)
    answer(room.exchanges[0])
    room.asks(headers(7))
    assert len(room.exchanges) == 3


# -- responses -----------------------------------------------------------------------


def test_a_response_has_its_fields_and_a_date() -> None:
    room = Http2Room()
    exchange = room.asks()
    exchange.commit()
    exchange.response.start(ResponseHead(201, [(b"x-a", b"b")], 2))
    exchange.response.write(b"ok", True)
    room.turn()
    (head,) = room.of_kind(Head)
    assert head.fields[b":status"] == b"201"
    assert head.fields[b"x-a"] == b"b"
    assert head.fields[b"content-length"] == b"2"
    assert head.fields[b"date"]
    assert (exchange.status, exchange.phase) == (201, Phase.DONE)


@pytest.mark.parametrize(
    ("method", "status", "length"),
    [(b"HEAD", 200, b"2"), (b"GET", 204, None), (b"GET", 304, None)],
)
@pytest.mark.parametrize("body", [b"ok", b""])
def test_some_responses_have_no_body(
    method: bytes, status: int, length: bytes | None, body: bytes
) -> None:
    room = Http2Room()
    exchange = room.asks(headers(1, with_fields(method=method)))
    exchange.commit()
    exchange.response.start(ResponseHead(status, [DATE], 2))
    exchange.response.write(body, True)
    room.turn()
    frames = room.frames()
    (head,) = [f for f in frames if isinstance(f, Head)]
    assert head.fields.get(b"content-length") == length
    assert "END_STREAM" in head.flags
    assert not [f for f in frames if isinstance(f, DataFrame)]


def test_a_stream_without_a_body_ends_all_the_same() -> None:
    room = Http2Room()
    source = begin(room.asks(headers(1, with_fields(method=b"HEAD"))))
    source.deliver(b"data")
    source.deliver(b"more", True)
    room.turn()
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"", True)


def test_a_stream_leaves_as_it_comes() -> None:
    room = Http2Room()
    source = begin(room.asks())
    room.turn()
    assert len(room.of_kind(Head)) == 1
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        source.deliver(event)
        room.turn()
        assert body_of(room.frames(), 1) == event
    source.deliver(b"", True)
    room.turn()
    assert ended(room.frames(), 1)


def test_a_response_that_breaks_off_is_reset_behind_what_there_was() -> None:
    room = Http2Room()
    source = begin(room.asks())
    source.deliver(b"some")
    source.fail(UpstreamError("broken"))
    room.turn()
    frames = room.frames()
    assert (body_of(frames, 1), ended(frames, 1)) == (b"some", False)
    assert frames[-1].stream_id == 1
    assert [f.error_code for f in frames if isinstance(f, RstStreamFrame)] == [2]
    answer(room.asks(headers(3)))
    room.turn()
    assert ended(room.frames(), 3)
