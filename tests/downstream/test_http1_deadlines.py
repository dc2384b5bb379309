"""How long a client may take, seen by the sweep of a hand-wound clock."""

from __future__ import annotations

import socket

from smgproxy.core.errors import BodyStalled
from smgproxy.core.exchange import Verdict
from smgproxy.core.flow import Hold
from tests.downstream.stage import UPLOAD, Kept, Room, answer, begin
from tests.fakes.clock import FakeClock


def test_an_idle_connection_is_closed_in_time(clock: FakeClock) -> None:
    room = Room(idle_connection_timeout_secs=90, header_read_timeout_secs=0)
    answer(room.ask())
    assert room.is_open_after(clock, 90)
    assert not room.is_open_after(clock, 1)
    assert len(room.transport.syscalls) == 1


def test_a_client_that_never_says_anything_runs_into_the_header_deadline(
    clock: FakeClock,
) -> None:
    room = Room(header_read_timeout_secs=30)
    assert room.is_open_after(clock, 30)
    assert not room.is_open_after(clock, 1)


def test_each_head_has_the_whole_time(clock: FakeClock) -> None:
    room = Room(header_read_timeout_secs=30, idle_connection_timeout_secs=90)
    answer(room.ask())
    assert room.is_open_after(clock, 60)
    room.transport.peer_sends(b"GET")
    assert room.is_open_after(clock, 30)
    assert not room.is_open_after(clock, 1)


def test_a_deadline_of_0_is_none(clock: FakeClock) -> None:
    room = Room(header_read_timeout_secs=0, idle_connection_timeout_secs=0)
    room.transport.peer_sends(b"GET")
    assert room.is_open_after(clock, 1e6)


def test_a_response_that_runs_has_no_deadline_of_the_clients(clock: FakeClock) -> None:
    room = Room()
    source = begin(room.ask())
    assert room.is_open_after(clock, 1e6)
    source.deliver(b"", True)
    assert room.is_open_after(clock, 1)


def test_an_upload_that_stalls_fails_and_one_that_drips_does_not(
    clock: FakeClock,
) -> None:
    room = Room(stream_body_stall_timeout_secs=10)
    exchange, sink = room.ask(UPLOAD), Kept()
    exchange.request.join(sink)
    for _ in range(5):
        assert room.is_open_after(clock, 9)
        room.transport.peer_sends(b"a")
    assert sink.error is None
    assert room.is_open_after(clock, 11), "it is to be answered"
    assert isinstance(sink.error, BodyStalled)


def test_an_upload_that_is_held_does_not_stall(
    clock: FakeClock, sock: socket.socket
) -> None:
    room = Room(sock, stream_body_stall_timeout_secs=10)
    exchange, sink = room.ask(UPLOAD), Kept()
    exchange.request.join(sink)
    exchange.request.hold(Hold.SINK_FULL)
    assert room.is_open_after(clock, 100)
    exchange.request.release(Hold.SINK_FULL)
    assert room.is_open_after(clock, 9)
    assert sink.error is None


def test_a_client_that_reads_a_long_answer_slowly_is_not_idle(
    clock: FakeClock,
) -> None:
    room = Room(idle_connection_timeout_secs=10)
    exchange = room.ask()
    room.transport.peer_stalls(0)
    answer(exchange, b"x" * 200_000)
    for _ in range(5):
        assert room.is_open_after(clock, 9)
        room.transport.peer_reads(10_000)
        room.connection.sweep(clock.now)
    assert room.is_open_after(clock, 10)
    assert not room.is_open_after(clock, 1)


def test_a_client_that_hung_up_while_paused_is_found_by_the_sweep(
    clock: FakeClock,
) -> None:
    ours, peers = socket.socketpair()
    with ours, peers:
        room = Room(ours)
        exchange = room.ask(UPLOAD)
        exchange.request.hold(Hold.SINK_FULL)
        assert room.is_open_after(clock, 1)
        peers.close()
        assert not room.is_open_after(clock, 1)


def test_a_client_that_takes_nothing_of_a_live_stream_is_gone_in_time(
    clock: FakeClock,
) -> None:
    room = Room(client_send_timeout_secs=60)
    exchange = room.ask()
    source = begin(exchange)
    room.transport.peer_stalls(0)
    source.deliver(b"x" * 200_000)
    assert room.is_open_after(clock, 59)
    room.transport.peer_reads(10_000)
    assert room.is_open_after(clock, 59), "it reads, however slowly"
    assert room.is_open_after(clock, 59)
    assert not room.is_open_after(clock, 2)
    assert exchange.verdict is Verdict.CLIENT_GONE
    assert source.is_ended, "its worker is let go"


def test_a_client_that_has_read_everything_may_wait_for_more(
    clock: FakeClock,
) -> None:
    room = Room(client_send_timeout_secs=60)
    source = begin(room.ask())
    room.transport.peer_stalls(0)
    source.deliver(b"x" * 200_000)
    assert room.is_open_after(clock, 59)
    room.transport.peer_reads(300_000)
    assert room.is_open_after(clock, 1e6)
