"""A client connection without a socket: writes, holds, loss, deadlines."""

from __future__ import annotations

import gc

import pytest

from smgproxy.core.exchange import Exchange, Phase, Verdict
from smgproxy.core.flow import Source
from smgproxy.core.message import ResponseHead
from smgproxy.downstream.http1 import LINGER_SECS, Http1Connection
from smgproxy.downstream.listener import ClientTimeouts, Listener
from smgproxy.wire.http1_request import HeadLimits
from tests.fakes.client import post
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport


class Room:
    """A listener that only remembers its exchanges, and one connection."""

    def __init__(self, **timeouts: int) -> None:
        self.exchanges: list[Exchange] = []
        options = ClientTimeouts(**timeouts)
        self.listener = Listener(options, HeadLimits(), self.exchanges.append)
        self.connection = Http1Connection(self.listener)
        self.transport = FakeTransport(self.connection, high_water=1000, low_water=100)

    def ask(self, data: bytes = post()) -> Exchange:
        self.transport.peer_sends(data)
        return self.exchanges[-1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    clock.stand_in(
        monkeypatch, "smgproxy.downstream.http1", "smgproxy.downstream.http1_response"
    )
    return clock


def answer(exchange: Exchange, body: bytes = b"ok") -> None:
    exchange.commit()
    exchange.response.start(ResponseHead(200, [(b"date", b"now")], len(body)))
    exchange.response.write(body, True)


def begin_stream(exchange: Exchange) -> Source:
    source = Source()
    exchange.commit()
    exchange.response.start(ResponseHead(200, [(b"date", b"now")], None))
    source.join(exchange.response)
    exchange.response.flush()
    return source


def test_a_small_answer_leaves_in_one_write() -> None:
    room = Room()
    answer(room.ask())
    assert room.transport.syscalls == [
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 2\r\n\r\nok"
    ]


def test_a_streamed_event_is_one_write_and_the_end_rides_along() -> None:
    room = Room()
    source = begin_stream(room.ask())
    source.deliver(b"data: 1\n\n")
    source.deliver(b"data: 2\n\n", True)
    assert room.transport.syscalls[1:] == [
        b"9\r\ndata: 1\n\n\r\n",
        b"9\r\ndata: 2\n\n\r\n0\r\n\r\n",
    ]


def test_an_empty_piece_does_not_end_a_chunked_body() -> None:
    room = Room()
    source = begin_stream(room.ask())
    source.deliver(b"")
    assert len(room.transport.syscalls) == 1


def test_a_client_that_stalls_holds_its_source_and_reading_releases_it() -> None:
    room = Room()
    source = begin_stream(room.ask())
    room.transport.peer_stalls(0)
    source.deliver(b"x" * 70_000)
    assert source.is_held
    room.transport.peer_reads(100_000)
    assert not source.is_held


@pytest.mark.parametrize("how", ["peer_closes", "peer_resets"])
def test_a_client_that_leaves_cuts_every_pointer(how: str) -> None:
    room = Room()
    exchange = room.ask()
    source = begin_stream(exchange)
    getattr(room.transport, how)()
    room.transport.turn()
    assert source.is_ended
    assert exchange.verdict is Verdict.CLIENT_GONE
    assert exchange.phase == Phase.DONE
    assert room.listener.open_connections == 0
    written = len(room.transport.syscalls)
    exchange.response.write(b"too late", True)
    assert len(room.transport.syscalls) == written


def test_a_finished_connection_leaves_no_cycle_behind() -> None:
    room = Room()
    answer(room.ask())
    room.transport.peer_closes()
    room.transport.turn()
    gc.collect()
    gc.disable()
    try:
        del room
        kept = [one for one in gc.get_objects() if isinstance(one, Http1Connection)]
        assert kept == []
    finally:
        gc.enable()


def test_a_head_that_stays_incomplete_is_cut(clock: FakeClock) -> None:
    room = Room(header_read_timeout_secs=5)
    room.transport.peer_sends(b"GET / HT")
    clock.advance(4)
    room.transport.peer_sends(b"TP")
    room.connection.sweep(clock.monotonic())
    assert not room.transport.is_closing()
    clock.advance(2)
    room.connection.sweep(clock.monotonic())
    assert room.transport.is_closing()
    assert room.transport.syscalls == []


def test_the_rest_of_an_upload_is_dropped_for_a_moment_only(clock: FakeClock) -> None:
    room = Room()
    exchange = room.ask(post()[:-4])
    answer(exchange)
    assert b"connection: close" in room.transport.sent
    assert room.transport.is_eof_written
    room.transport.peer_sends(b"more")
    clock.advance(LINGER_SECS + 1)
    room.connection.sweep(clock.monotonic())
    assert room.transport.is_closing()


def test_a_draining_listener_says_close_and_does_it() -> None:
    room = Room()
    exchange = room.ask()
    room.listener.drain()
    answer(exchange)
    assert b"connection: close" in room.transport.sent
    assert room.transport.is_closing()


def test_an_idle_connection_is_closed_by_a_drain() -> None:
    room = Room()
    answer(room.ask())
    room.listener.drain()
    assert room.transport.is_closing()
