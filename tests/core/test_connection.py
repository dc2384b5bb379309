"""Connections: pauses that add up, an orderly end, bytes that go straight through."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from smgproxy.core.connection import (
    BY_TURN,
    Connection,
    Socket,
    SocketSink,
    SocketSource,
)
from smgproxy.core.flow import Hold, Sink
from smgproxy.core.turns import ReadTurns
from tests.fakes.transport import FakeTransport


class Plain(Socket, asyncio.Protocol):
    """A socket that notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def on_read_on(self) -> None:
        self.said.append("read on")

    def finish(self) -> None:
        self.said.append("finish")

    def break_off(self) -> None:
        self.said.append("break off")


class Bytes(SocketSource):
    """What comes from it."""

    __slots__ = ("_socket",)

    def __init__(self, socket: Socket) -> None:
        super().__init__()
        self._socket: Socket | None = socket


class Heard(Sink):
    """Notes what it is written."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[tuple[bytes, bool]] = []

    def write(self, data: bytes, end: bool = False) -> None:
        self.heard.append((data, end))


def _open(can_write_eof: bool = True) -> tuple[Plain, FakeTransport]:
    plain = Plain()
    return plain, FakeTransport(plain, can_write_eof=can_write_eof)


def test_reading_goes_on_when_the_last_reason_is_gone() -> None:
    plain, transport = _open()
    plain.pause()
    plain.pause(BY_TURN)
    plain.resume()
    assert not transport.is_reading() and not plain.said
    plain.resume(BY_TURN)
    assert transport.is_reading() and plain.said == ["read on"]


def test_a_reason_that_was_not_given_resumes_nothing() -> None:
    plain, transport = _open()
    plain.pause()
    plain.resume(BY_TURN)
    assert not transport.is_reading()


def test_a_connection_whose_turn_it_is_reads_on_if_nothing_else_holds_it() -> None:
    plain, transport = _open()
    due: list[Callable[[], None]] = []
    plain.wait_for_turn(ReadTurns(due.append), 1)
    plain.pause()
    due.pop()()
    assert not transport.is_reading()
    plain.resume()
    assert transport.is_reading()


def test_a_socket_that_is_closing_is_left_alone() -> None:
    plain, transport = _open()
    transport.close()
    plain.pause()
    plain.resume()
    plain.half_close()
    SocketSink(plain).write(b"late")
    assert not transport.syscalls and not transport.is_eof_written


def test_a_socket_that_is_gone_is_no_error() -> None:
    plain = Plain()
    plain.pause()
    plain.resume()
    Connection.half_close(plain)
    SocketSink(plain).write(b"late")


def test_a_half_close_reads_on_for_the_peers_end() -> None:
    plain, transport = _open()
    plain.pause()
    plain.pause(BY_TURN)
    plain.half_close()
    assert transport.is_eof_written and transport.is_reading()


def test_where_there_is_no_half_close_it_is_a_whole_one() -> None:
    plain, transport = _open(can_write_eof=False)
    plain.half_close()
    assert transport.is_closing()


def test_bytes_of_a_socket_keep_their_order_across_holds() -> None:
    plain, transport = _open()
    source, sink = Bytes(plain), Heard()
    source.deliver(b"0")
    source.join(sink)
    source.deliver(b"1")
    source.hold(Hold.SINK_FULL)
    assert not transport.is_reading()
    source.deliver(b"2")
    source.deliver(b"3", True)
    assert [data for data, _ in sink.heard] == [b"0", b"1"]
    source.release(Hold.SINK_FULL)
    assert sink.heard[2:] == [(b"2", False), (b"3", True)]
    source.deliver(b"4")
    assert len(sink.heard) == 4 and transport.is_reading()


def test_a_source_that_let_go_of_its_socket_leaves_it_alone() -> None:
    plain, transport = _open()
    source = Bytes(plain)
    source.detach()
    source.hold(Hold.SINK_FULL)
    assert transport.is_reading()


@pytest.mark.parametrize("is_detached", [False, True])
def test_the_end_of_what_is_written_and_its_failure_are_the_sockets(
    is_detached: bool,
) -> None:
    plain, transport = _open()
    sink = SocketSink(plain)
    if is_detached:
        sink.detach()
    sink.write(b"last", True)
    sink.abort(ConnectionError())
    assert plain.said == ([] if is_detached else ["finish", "break off"])
    assert transport.syscalls == ([] if is_detached else [b"last"])
