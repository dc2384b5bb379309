"""A client connection without a socket: writes, holds, loss, deadlines."""

from __future__ import annotations

import pytest

from smgproxy.core.exchange import Phase, Verdict
from smgproxy.downstream.http1 import LINGER_SECS
from tests.downstream.stage import Room, answer, begin
from tests.fakes.client import post
from tests.fakes.clock import FakeClock


def test_a_small_answer_leaves_in_one_write() -> None:
    room = Room()
    answer(room.ask(post()))
    assert room.transport.syscalls == [
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 2\r\n\r\nok"
    ]


def test_a_streamed_event_is_one_write_and_the_end_rides_along() -> None:
    room = Room()
    source = begin(room.ask(post()))
    source.deliver(b"data: 1\n\n")
    source.deliver(b"data: 2\n\n", True)
    assert room.transport.syscalls[1:] == [
        b"9\r\ndata: 1\n\n\r\n",
        b"9\r\ndata: 2\n\n\r\n0\r\n\r\n",
    ]


def test_an_empty_piece_does_not_end_a_chunked_body() -> None:
    room = Room()
    source = begin(room.ask(post()))
    source.deliver(b"")
    assert len(room.transport.syscalls) == 1


def test_a_client_that_stalls_holds_its_source_and_reading_releases_it() -> None:
    room = Room()
    source = begin(room.ask(post()))
    room.transport.peer_stalls(0)
    source.deliver(b"x" * 70_000)
    assert source.is_held
    room.transport.peer_reads(100_000)
    assert not source.is_held


@pytest.mark.parametrize("how", ["peer_closes", "peer_resets"])
def test_a_client_that_leaves_cuts_every_pointer(how: str) -> None:
    room = Room()
    exchange = room.ask(post())
    source = begin(exchange)
    getattr(room.transport, how)()
    room.transport.turn()
    assert source.is_ended
    assert exchange.verdict is Verdict.CLIENT_GONE
    assert exchange.phase == Phase.DONE
    assert room.listener.open_connections == 0
    written = len(room.transport.syscalls)
    exchange.response.write(b"too late", True)
    assert len(room.transport.syscalls) == written


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
    exchange = room.ask(post())
    room.listener.drain()
    answer(exchange)
    assert b"connection: close" in room.transport.sent
    assert room.transport.is_closing()


def test_an_idle_connection_is_closed_by_a_drain() -> None:
    room = Room()
    answer(room.ask(post()))
    room.listener.drain()
    assert room.transport.is_closing()
