"""HTTP/2 clients that leave: what is written then, and what is left of them."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.flow import Source
from smgproxy.core.message import ResponseHead
from smgproxy.downstream.http2 import Http2Connection
from smgproxy.downstream.http2_stream import Http2Request, Http2Response
from smgproxy.wire.http2 import PREFACE, FrameReader
from smgproxy.wire.http2_output import Http2Output
from tests.downstream.h2_stage import OPEN, Http2Room, data, headers, raw, rst, settings
from tests.downstream.stage import DATE, answer, begin


def close(room: Http2Room) -> None:
    room.transport.peer_closes()


def reset(room: Http2Room) -> None:
    room.transport.peer_resets()


def cut(room: Http2Room) -> None:
    room.connection.cut()


def err(room: Http2Room) -> None:
    room.says(raw(6))
    room.transport.peer_closes()


Ending = Callable[[Http2Room], None]
ENDINGS = pytest.mark.parametrize("end", [close, reset, cut, err])
OURS = (
    *(Http2Connection, Http2Request, Http2Response, Http2Output),
    *(FrameReader, Exchange, Source),
)


@ENDINGS
@pytest.mark.parametrize(
    "phase",
    ["idle", "mid-head", "upload", "waiting", "stream", "blocked", "answered", "reset"],
)
def test_a_lost_connection_leaves_no_cycle(end: Ending, phase: str) -> None:
    gc.collect()
    gc.disable()
    try:
        before = {id(one) for one in gc.get_objects() if isinstance(one, OURS)}
        room = Http2Room(PREFACE + settings(initial_window_size=2))
        if phase == "mid-head":
            room.says(headers()[:9])
        elif phase == "upload":
            room.says(OPEN + data(1, b"x"))
        elif phase == "stream":
            begin(room.asks()).deliver(b"x")
        elif phase == "blocked":
            begin(room.asks()).deliver(b"xxx")
        elif phase == "waiting":
            room.asks()
        elif phase == "answered":
            room.is_joining = False
            answer(room.asks())
        elif phase == "reset":
            room.asks(OPEN, rst(1))
        room.turn()
        end(room)
        room.turn()
        assert room.listener.open_connections == 0
        # The listener's callback is a method of the room, which a real one has not.
        room.listener.on_exchange = room.exchanges.append
        room.exchanges = []
        del room
        left = [one for one in gc.get_objects() if isinstance(one, OURS)]
        assert [one for one in left if id(one) not in before] == []
    finally:
        gc.enable()


@ENDINGS
def test_nothing_is_written_to_a_lost_connection(end: Ending) -> None:
    room = Http2Room()
    exchange = room.asks()
    end(room)
    room.turn()
    before = len(room.transport.syscalls)
    exchange.response.start(ResponseHead(200, [DATE], None))  # a transport would raise
    exchange.response.flush()
    exchange.response.write(b"x")
    exchange.response.write(b"", True)
    room.turn()
    assert len(room.transport.syscalls) == before


@ENDINGS
def test_every_exchange_of_a_lost_connection_is_called_off(end: Ending) -> None:
    room = Http2Room()
    room.says(headers(1) + headers(3, end=False) + headers(5))
    source = begin(room.exchanges[2])
    end(room)
    room.turn()
    assert [e.verdict for e in room.exchanges] == [Verdict.CLIENT_GONE] * 3
    assert source.is_ended
    source.deliver(b"x")
    assert room.exchanges[1].request.is_ended


def test_frames_in_one_read_behind_an_error_are_not_looked_at() -> None:
    room = Http2Room()
    room.says(headers(1) + raw(6) + headers(3))
    assert len(room.exchanges) == 1
    assert room.exchanges[0].verdict is Verdict.CLIENT_GONE


def test_streams_that_are_over_are_not_remembered_one_by_one() -> None:
    room = Http2Room()
    for stream_id in range(1, 2001, 2):
        answer(room.asks(headers(stream_id)))
        room.turn()
    assert len(room.connection._streams) == 0
    assert len(room.connection._side._streams) <= 32
