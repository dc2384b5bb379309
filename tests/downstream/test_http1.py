"""A client connection without a socket: framing, pipelining, uploads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from smgproxy.core.errors import BodyAborted, UpstreamError
from smgproxy.core.flow import BACKLOG_BYTES, Hold, Source
from smgproxy.core.message import ResponseHead
from smgproxy.core.turns import LARGE_READ_BYTES, ReadTurns
from smgproxy.downstream.http1 import LINGER_BYTES
from tests.downstream.stage import DATE, GET, UPLOAD, Kept, Room, answer, begin
from tests.fakes.client import post

UPGRADE = (
    b"GET /v1/realtime HTTP/1.1\r\nhost: g\r\n"
    b"connection: upgrade\r\nupgrade: websocket\r\n\r\n"
)

# -- framing -------------------------------------------------------------------------


def test_an_empty_answer_is_one_write() -> None:
    room = Room()
    answer(room.ask(), b"")
    assert room.transport.syscalls == [
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 0\r\n\r\n"
    ]


def test_a_large_answer_is_not_copied_behind_its_head() -> None:
    room = Room()
    answer(room.ask(), b"x" * 100_000)
    assert [len(one) < 100 for one in room.transport.syscalls] == [True, False]


def test_a_stream_that_ends_without_bytes_is_head_and_last_chunk() -> None:
    room = Room()
    source = begin(room.ask())
    source.deliver(b"", True)
    assert room.transport.sent.endswith(b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n")


def test_a_stream_whose_first_bytes_are_here_starts_in_one_write() -> None:
    room = Room()
    exchange, source = room.ask(), Source()
    source.deliver(b"data: 1\n\n")
    exchange.commit()
    exchange.response.start(ResponseHead(200, [DATE], None))
    source.join(exchange.response)
    exchange.response.flush()
    assert len(room.transport.syscalls) == 1


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_gets_none(status: int) -> None:
    room = Room()
    answer(room.ask(), b"not sent", status)
    assert room.transport.sent.endswith(b"date: now\r\n\r\n")
    assert b"content-length" not in room.transport.sent


def test_head_gets_the_length_and_no_body() -> None:
    room = Room()
    answer(room.ask(GET.replace(b"GET", b"HEAD")))
    assert room.transport.sent.endswith(b"content-length: 2\r\n\r\n")


def test_no_more_is_sent_than_was_announced() -> None:
    room = Room()
    source = begin(room.ask(), 3)
    source.deliver(b"ab")
    source.deliver(b"cdef", True)
    assert room.transport.sent.endswith(b"\r\n\r\nabc")
    assert not room.transport.is_closing()


def test_a_body_shorter_than_announced_ends_the_connection() -> None:
    room = Room()
    begin(room.ask(), 3).deliver(b"ab", True)
    assert room.transport.is_closing()


def test_a_stream_that_breaks_is_cut_without_a_last_chunk() -> None:
    room = Room()
    source = begin(room.ask())
    source.deliver(b"a")
    source.fail(UpstreamError("broken"))
    assert room.transport.events[-1] == "abort"
    assert room.transport.sent.endswith(b"1\r\na\r\n")


def test_http_1_0_gets_a_body_that_ends_with_the_connection() -> None:
    room = Room()
    begin(room.ask(b"GET /x HTTP/1.0\r\n\r\n")).deliver(b"ab", True)
    assert room.transport.sent == (
        b"HTTP/1.0 200 OK\r\ndate: now\r\nconnection: close\r\n\r\nab"
    )
    assert room.transport.is_closing()


def test_a_client_that_asks_for_a_close_gets_it() -> None:
    room = Room()
    answer(room.ask(GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")))
    assert b"connection: close\r\n" in room.transport.sent
    assert room.transport.is_closing()


@pytest.mark.parametrize("rubbish", [b"\x16\x03\x01\r\n\r\n", b"GET /\r\n\r\n"])
def test_what_is_no_request_is_refused_in_one_write(rubbish: bytes) -> None:
    room = Room()
    room.transport.peer_sends(rubbish)
    (refusal,) = room.transport.syscalls
    line, date, *fields = refusal.split(b"\r\n")
    assert line == b"HTTP/1.1 400 Bad Request"
    assert date.startswith(b"date: ") and date.endswith(b" GMT")
    assert fields == [b"content-length: 0", b"connection: close", b"", b""]
    assert room.transport.is_eof_written
    assert room.exchanges == []
    assert room.listener.malformed == {400: 1}


# -- requests behind one another -----------------------------------------------------


def test_pipelined_requests_are_opened_one_at_a_time_in_order() -> None:
    room = Room()
    room.transport.peer_sends(GET + GET.replace(b"models", b"second") + GET)
    for path in ("/v1/models", "/v1/second", "/v1/models"):
        assert room.exchanges[-1].head.path == path
        answer(room.exchanges[-1])
    assert len(room.exchanges) == 3
    assert room.transport.sent.count(b"HTTP/1.1 200") == 3


def test_pipelined_bytes_are_bounded_and_read_on_behind_the_answer() -> None:
    room = Room()
    exchange = room.ask(GET)
    waiting = GET * (BACKLOG_BYTES // len(GET) + 1)
    room.transport.peer_sends(waiting, GET, GET)
    assert room.transport.unread == GET + GET
    answer(exchange)
    room.transport.turn()
    while len(room.exchanges) < waiting.count(GET) + 3:
        answer(room.exchanges[-1])
        room.transport.turn()
    assert room.transport.unread == b""


def test_a_client_that_does_not_read_gets_no_second_exchange() -> None:
    room = Room()
    exchange = room.ask(GET)
    room.transport.peer_stalls(0)
    answer(exchange, b"x" * 100_000)
    room.transport.peer_sends(GET)
    assert len(room.exchanges) == 1
    room.transport.peer_reads()
    assert len(room.exchanges) == 2


# -- uploads -------------------------------------------------------------------------


def test_continue_is_one_write_and_only_when_somebody_wants_the_body() -> None:
    room = Room()
    head, body = post(headers="Expect: 100-continue\r\n").split(b"\r\n\r\n")
    exchange = room.ask(head + b"\r\n\r\n")
    assert room.transport.syscalls == []
    sink = Kept()
    exchange.request.join(sink)
    assert room.transport.syscalls == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    room.transport.peer_sends(body)
    assert sink.body == body
    answer(exchange)
    assert not room.transport.is_closing()


def test_an_upload_nobody_takes_is_read_a_little_ahead_only() -> None:
    room = Room()
    exchange = room.ask(UPLOAD)
    room.transport.peer_sends(b"x" * BACKLOG_BYTES, b"y")
    assert room.transport.unread == b"y"
    sink = Kept()
    exchange.request.join(sink)
    room.transport.turn()
    assert sink.body == b"x" * BACKLOG_BYTES + b"y"


def test_a_hold_pauses_the_client_and_the_release_reads_on() -> None:
    room = Room()
    exchange, sink = room.ask(UPLOAD), Kept()
    exchange.request.join(sink)
    exchange.request.hold(Hold.SINK_FULL)
    room.transport.peer_sends(b"a")
    assert sink.body == b""
    exchange.request.release(Hold.SINK_FULL)
    room.transport.turn()
    assert sink.body == b"a"
    assert room.transport.events == ["pause_reading", "resume_reading"]


def test_a_framing_that_breaks_in_the_body_fails_it() -> None:
    room = Room()
    exchange = room.ask(
        b"POST /x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    sink = Kept()
    exchange.request.join(sink)
    room.transport.peer_sends(b"1\r\na\r\n", b"zz\r\n")
    assert sink.body == b"a"
    assert isinstance(sink.error, BodyAborted)


def test_a_full_read_of_an_upload_lets_others_read_before_the_next() -> None:
    room = Room()
    due: list[Callable[[], None]] = []
    room.listener.turns = ReadTurns(due.append)
    exchange = room.ask(UPLOAD)
    sink = Kept()
    exchange.request.join(sink)
    room.transport.peer_sends(b"x" * LARGE_READ_BYTES)
    assert not room.transport.is_reading()
    assert len(sink.body) == LARGE_READ_BYTES
    due.pop()()
    assert room.transport.is_reading()


def test_a_turn_to_read_comes_too_late_for_a_connection_that_went() -> None:
    room = Room()
    due: list[Callable[[], None]] = []
    room.listener.turns = ReadTurns(due.append)
    room.ask(UPLOAD).request.join(Kept())
    room.transport.peer_sends(b"x" * LARGE_READ_BYTES)
    room.connection.cut()
    room.transport.turn()
    due.pop()()


def test_a_websocket_reads_on_though_its_handshake_came_in_a_full_read() -> None:
    room = Room()
    due: list[Callable[[], None]] = []
    room.listener.turns = ReadTurns(due.append)
    exchange = room.ask(UPGRADE + b"x" * LARGE_READ_BYTES)
    exchange.response.start(ResponseHead(101, [DATE], None))
    exchange.response.flush()
    due.pop()()
    taken = Kept()
    exchange.request.join(taken)
    room.transport.peer_sends(b"y")
    assert taken.body == b"x" * LARGE_READ_BYTES + b"y"


def test_a_full_read_of_a_websocket_lets_others_read_before_the_next() -> None:
    room = Room()
    due: list[Callable[[], None]] = []
    room.listener.turns = ReadTurns(due.append)
    exchange = room.ask(UPGRADE)
    exchange.response.start(ResponseHead(101, [DATE], None))
    exchange.response.flush()
    exchange.request.join(Kept())
    room.transport.peer_sends(b"x" * LARGE_READ_BYTES)
    assert not room.transport.is_reading()
    due.pop()()
    assert room.transport.is_reading()


def test_an_early_answer_is_followed_by_a_half_close_and_a_bounded_discard() -> None:
    room = Room()
    answer(room.ask(UPLOAD), b"no", 413)
    assert room.transport.events == ["write_eof"]
    room.transport.peer_sends(b"x" * LINGER_BYTES)
    assert not room.transport.is_closing()
    room.transport.peer_sends(b"x")
    assert room.transport.is_closing()


def test_an_early_answer_reads_on_though_the_upload_was_held() -> None:
    room = Room()
    exchange = room.ask(UPLOAD)
    room.transport.peer_sends(b"x" * BACKLOG_BYTES, b"y")
    answer(exchange, b"no", 413)
    room.transport.turn()
    assert room.transport.unread == b""


def test_a_transport_that_cannot_half_close_is_closed() -> None:
    room = Room()
    room.transport._can_write_eof = False
    answer(room.ask(UPLOAD), b"no", 413)
    assert room.transport.events == ["close"]
