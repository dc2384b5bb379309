"""The TLS layer as a conversation: real TLS, no sockets, no loop."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from smgproxy.tls.connection import BATCH_BYTES, TlsConnection
from tests.fakes.certificates import Authority
from tests.fakes.transport import FakeTransport
from tests.tls.stage import Line, Watcher

BIG = bytes(range(256)) * 4096  # 1 MiB


# -- handshake -----------------------------------------------------------------------


def test_inner_protocol_is_asked_for_when_alpn_has_spoken(
    authority: Authority, serving: ssl.SSLContext
) -> None:
    peers = authority.trusting()
    peers.set_alpn_protocols(["http/1.1"])
    line = Line(serving, peers)
    assert line.owner.told == ["arrived"]
    line.handshake()
    assert line.owner.told == ["arrived", "secured http/1.1"]
    assert line.speaker.told == ["made"]


def test_request_in_the_last_bytes_of_the_handshake_is_delivered(
    authority: Authority, serving: ssl.SSLContext
) -> None:
    line = Line(serving, authority.trusting())
    line.peer.shake()
    line.sends(line.peer.outgoing.read())
    line.peer.incoming.write(line.wire())
    line.peer.shake()
    line.sends(line.peer.sealed(b"GET"))
    assert (line.speaker.told, line.speaker.got) == (["made"], [b"GET"])


def test_handshake_byte_by_byte(authority: Authority, serving: ssl.SSLContext) -> None:
    line = Line(serving, authority.trusting())
    for _ in range(3):
        line.peer.incoming.write(line.wire())
        if not line.peer.is_through:
            line.peer.shake()
        for byte in line.peer.outgoing.read():
            line.sends(bytes([byte]))
    assert line.speaker.told == ["made"]


def test_connection_that_has_no_room_is_dropped(serving: ssl.SSLContext) -> None:
    owner = Watcher(has_room=False)
    layer = TlsConnection(serving, owner)
    sock = FakeTransport(layer)
    sock.turn()
    assert sock.events == ["abort", "connection_lost"]
    assert owner.told == ["arrived"]


def test_failed_handshake_is_told_once_and_an_alert_leaves(
    serving: ssl.SSLContext,
) -> None:
    line = Line(serving, ssl.create_default_context())
    line.sends(b"\x16\x03\x01\x00\x05hello")
    line.socket.turn()
    assert line.owner.told == ["arrived", "failed SSLError"]
    assert line.wire().startswith(b"\x15\x03")
    assert line.speaker.told == []


@pytest.mark.parametrize("how", ["closes", "resets"])
def test_peer_that_leaves_within_the_handshake(
    how: str, serving: ssl.SSLContext
) -> None:
    line = Line(serving, ssl.create_default_context())
    getattr(line.socket, f"peer_{how}")()
    line.socket.turn()
    assert line.owner.told == ["arrived", "failed ConnectionResetError"]
    assert line.socket.is_lost


def test_handshake_given_up_by_its_owner(serving: ssl.SSLContext) -> None:
    line = Line(serving, ssl.create_default_context())
    line.layer.fail(TimeoutError())
    line.socket.turn()
    assert line.owner.told == ["arrived", "failed TimeoutError"]
    assert line.socket.is_lost


# -- reading -------------------------------------------------------------------------


def test_one_read_is_one_delivery(line: Line) -> None:
    line.sends(line.peer.sealed(BIG))
    assert line.speaker.got == [BIG]


def test_records_may_be_cut_anywhere(line: Line) -> None:
    wire = line.peer.sealed(b"first") + line.peer.sealed(b"second")
    for byte in wire:
        line.sends(bytes([byte]))
    assert line.speaker.got == [b"first", b"second"]


def test_a_pause_is_the_sockets_pause(line: Line) -> None:
    line.layer.pause_reading()
    line.sends(line.peer.sealed(b"later"))
    assert line.speaker.got == []
    line.layer.resume_reading()
    line.socket.turn()
    assert line.speaker.got == [b"later"]


def test_a_broken_record_ends_the_connection(line: Line) -> None:
    line.sends(b"\x17\x03\x03\x00\x20" + b"x" * 32)
    line.socket.turn()
    assert line.speaker.told == ["made", "lost"]
    assert isinstance(line.speaker.error, ssl.SSLError)


# -- the peer's end ------------------------------------------------------------------


def test_bytes_before_a_close_notify_are_delivered_first(line: Line) -> None:
    line.sends(line.peer.sealed(b"last") + line.peer.goodbye())
    line.socket.turn()
    assert line.speaker.got == [b"last"]
    assert line.speaker.told == ["made", "eof", "lost"]


def test_close_notify_is_answered(line: Line) -> None:
    line.sends(line.peer.goodbye())
    assert line.read() == (b"", True)


def test_close_notify_and_fin_are_one_end(line: Line) -> None:
    line.sends(line.peer.goodbye())
    line.socket.peer_closes()
    line.socket.turn()
    assert line.speaker.told == ["made", "eof", "lost"]


def test_bare_fin_of_a_client_is_its_end(line: Line) -> None:
    line.socket.peer_closes()
    line.socket.turn()
    assert line.speaker.told == ["made", "eof", "lost"]
    assert line.speaker.error is None


def test_bare_fin_of_a_server_is_a_broken_connection(call: Line) -> None:
    call.socket.peer_closes()
    call.socket.turn()
    assert call.speaker.told == ["made", "lost"]
    assert isinstance(call.speaker.error, ConnectionResetError)


def test_what_came_in_a_pause_is_delivered_before_the_end(call: Line) -> None:
    call.layer.pause_reading()
    call.sends(call.peer.sealed(b"last"))
    call.sends(call.peer.goodbye())
    call.socket.peer_closes()
    assert call.speaker.told == ["made"]
    call.layer.resume_reading()
    call.socket.turn()
    assert call.speaker.got == [b"last"]
    assert call.speaker.told[:2] == ["made", "eof"]


# -- writing -------------------------------------------------------------------------


def test_one_write_is_one_system_call(line: Line) -> None:
    before = len(line.socket.syscalls)
    line.layer.write(b"event")
    line.layer.writelines([b"head", b"", b"body"])
    assert len(line.socket.syscalls) == before + 2
    assert line.read() == (b"eventheadbody", False)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_large_write_arrives_whole(kind: type, line: Line) -> None:
    line.layer.write(kind(BIG))
    assert line.read() == (BIG, False)


def test_a_peer_that_does_not_read_stops_the_encryption(line: Line) -> None:
    line.socket.peer_stalls()
    line.layer.write(BIG)
    assert line.speaker.told == ["made", "pause"]
    encrypted = line.socket.get_write_buffer_size()
    assert encrypted <= 2 * BATCH_BYTES + 1000
    # Both what waits in the socket's transport and what waits above it.
    assert line.layer.get_write_buffer_size() >= len(BIG)
    line.layer.write(b"behind")
    assert line.socket.get_write_buffer_size() == encrypted
    line.socket.peer_reads()
    line.socket.turn()
    assert line.speaker.told == ["made", "pause", "resume"]
    assert line.read() == (BIG + b"behind", False)
    assert line.layer.get_write_buffer_size() == 0


def test_a_large_body_takes_several_turns_of_the_loop(line: Line) -> None:
    body = BIG * 3 + b"end"

    async def turns() -> list[int]:
        line.layer.write(body)
        left = [line.layer.get_write_buffer_size()]
        assert line.speaker.told == ["made", "pause"]
        while left[-1]:
            await asyncio.sleep(0.001)
            left.append(line.layer.get_write_buffer_size())
        return left

    left = asyncio.run(turns())
    assert left[0] > len(BIG)
    assert line.speaker.told == ["made", "pause", "resume"]
    assert line.read() == (body, False)


def test_small_writes_that_waited_leave_together(line: Line) -> None:
    line.socket.peer_stalls()
    line.layer.write(BIG[:BATCH_BYTES])
    for _ in range(100):
        line.layer.write(b"event")
    before = len(line.socket.syscalls)
    line.socket.peer_reads()
    line.socket.turn()
    assert len(line.socket.syscalls) - before <= 2
    assert line.read()[0].endswith(b"event" * 100)


# -- closing -------------------------------------------------------------------------


def test_close_says_goodbye_behind_what_was_written(line: Line) -> None:
    line.layer.write(b"bye")
    line.layer.close()
    assert line.layer.is_closing()
    line.layer.write(b"too late")
    assert line.read() == (b"bye", True)
    line.socket.turn()
    assert line.speaker.told == ["made", "lost"]


def test_close_waits_for_what_the_peer_has_yet_to_take(line: Line) -> None:
    line.socket.peer_stalls()
    line.layer.write(BIG)
    line.layer.close()
    assert "close" not in line.socket.events
    line.socket.peer_reads()
    line.socket.turn()
    assert line.read() == (BIG, True)
    assert line.speaker.told == ["made", "pause", "lost"]


def test_half_close_reads_on(line: Line) -> None:
    line.layer.write(b"bye")
    line.layer.write_eof()
    assert line.socket.is_eof_written
    assert line.read() == (b"bye", True)
    line.sends(line.peer.sealed(b"rest of an upload"))
    assert line.speaker.got == [b"rest of an upload"]
    line.layer.close()
    line.socket.turn()
    assert line.speaker.told[-1] == "lost"


def test_half_close_waits_for_what_the_peer_has_yet_to_take(line: Line) -> None:
    line.socket.peer_stalls()
    line.layer.write(BIG)
    line.layer.write_eof()
    assert not line.socket.is_eof_written
    line.socket.peer_reads()
    line.socket.turn()
    assert line.socket.is_eof_written
    assert line.read() == (BIG, True)


def test_half_close_with_a_full_socket_happens_once(line: Line) -> None:
    line.socket.peer_stalls()
    line.layer.write(BIG[:BATCH_BYTES])
    line.layer.write_eof()
    line.socket.peer_reads()
    line.socket.turn()
    assert line.socket.events.count("write_eof") == 1
    assert line.read() == (BIG[:BATCH_BYTES], True)


def test_abort_drops_everything(line: Line) -> None:
    line.socket.peer_stalls()
    line.layer.write(BIG)
    line.layer.abort()
    line.socket.turn()
    assert line.layer.get_write_buffer_size() == 0
    assert line.speaker.told == ["made", "pause", "lost"]
    # None of these may reach the transport, which is gone.
    line.layer.write(b"x")
    line.layer.writelines([b"x"])
    line.layer.write_eof()
    line.layer.pause_reading()
    line.layer.resume_reading()
    line.layer.close()
    line.layer.abort()
