"""Clients that leave, a listener that drains: what is written, and what is left."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Source
from smgproxy.core.message import ResponseHead
from smgproxy.downstream.http1 import Http1Connection
from smgproxy.downstream.http1_request import Http1Request
from smgproxy.downstream.http1_response import Http1Response
from smgproxy.wire.http1_request import RequestReader
from tests.downstream.stage import DATE, GET, UPLOAD, Kept, Room, answer, begin
from tests.fakes.transport import FakeTransport


def close(room: Room) -> None:
    room.transport.peer_closes()


def reset(room: Room) -> None:
    room.transport.peer_resets()


def cut(room: Room) -> None:
    room.connection.cut()


Ending = Callable[[Room], None]
OURS = (
    *(Http1Connection, Http1Request, Http1Response),
    *(RequestReader, Exchange, Source),
)


@pytest.mark.parametrize("end", [close, reset, cut])
@pytest.mark.parametrize(
    "phase", ["idle", "mid-head", "upload", "waiting", "stream", "answered"]
)
def test_a_lost_connection_leaves_no_cycle(end: Ending, phase: str) -> None:
    gc.collect()
    gc.disable()
    try:
        before = {id(one) for one in gc.get_objects() if isinstance(one, OURS)}
        room = Room()
        if phase == "mid-head":
            room.transport.peer_sends(GET[:9])
        elif phase == "upload":
            room.ask(UPLOAD).request.join(Kept())
            room.transport.peer_sends(b"x")
        elif phase == "stream":
            begin(room.ask()).deliver(b"x")
        elif phase == "waiting":
            room.ask()
        elif phase == "answered":
            answer(room.ask())
        end(room)
        room.transport.turn()
        assert room.listener.open_connections == 0
        del room
        left = [one for one in gc.get_objects() if isinstance(one, OURS)]
        assert [one for one in left if id(one) not in before] == []
    finally:
        gc.enable()


@pytest.mark.parametrize("end", [close, reset, cut])
def test_nothing_is_written_to_a_lost_connection(end: Ending) -> None:
    room = Room()
    exchange = room.ask()
    end(room)
    room.transport.turn()
    exchange.response.start(ResponseHead(200, [DATE], None))  # a transport would raise
    exchange.response.flush()
    exchange.response.write(b"x")
    exchange.response.write(b"", True)
    assert room.transport.syscalls == []


def test_a_source_that_delivers_to_a_lost_client_is_told_to_stop() -> None:
    room = Room()
    source = begin(room.ask())
    room.transport.peer_resets()
    assert source.is_ended
    source.deliver(b"x")


def test_requests_waiting_behind_a_lost_one_are_dropped() -> None:
    room = Room()
    exchange = room.ask(GET + GET)
    room.transport.peer_closes()
    room.transport.turn()
    exchange.response.start(ResponseHead(200, [DATE], 0))
    exchange.response.write(b"", True)
    assert len(room.exchanges) == 1


def test_a_connection_over_the_limit_is_cut_and_not_counted_as_accepted() -> None:
    room = Room(max_connections=1)
    second = FakeTransport(Http1Connection(room.listener))
    second.turn()
    assert second.events == ["abort", "connection_lost"]
    assert (room.listener.accepted, room.listener.turned_away) == (1, 1)
    assert room.listener.open_connections == 1


def test_a_drain_lets_a_stream_end_and_then_closes() -> None:
    room = Room()
    source = begin(room.ask())
    room.listener.drain()
    assert not room.transport.is_closing()
    source.deliver(b"a", True)
    assert room.transport.sent.endswith(b"1\r\na\r\n0\r\n\r\n")
    assert room.transport.is_closing()


def test_a_drain_waits_for_a_head_that_has_begun() -> None:
    room = Room()
    room.transport.peer_sends(GET[:9])
    room.listener.drain()
    room.transport.peer_sends(GET[9:])
    answer(room.exchanges[-1])
    assert b"connection: close" in room.transport.sent
    assert room.transport.is_closing()
