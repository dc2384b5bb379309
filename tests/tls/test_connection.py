"""The TLS layer as a conversation: real TLS, no sockets, no loop."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from smgproxy.tls.connection import BATCH_BYTES, TlsConnection
from tests.fakes.certificates import HOST, Authority
from tests.fakes.transport import FakeTransport

BIG = bytes(range(256)) * 4096  # 1 MiB


class Speaker(asyncio.Protocol):
    """The inner protocol: remembers what it is told."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self.told: list[str] = []
        self.error: Exception | None = None
        self.answer = b""  # written as soon as something comes

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.told.append("made")

    def data_received(self, data: bytes) -> None:
        self.got.append(data)

    def eof_received(self) -> bool:
        self.told.append("eof")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.told.append("lost")
        self.error = error

    def pause_writing(self) -> None:
        self.told.append("pause")

    def resume_writing(self) -> None:
        self.told.append("resume")


class Watcher:
    """The owner: what became of the handshake."""

    def __init__(self, has_room: bool = True) -> None:
        self.speaker = Speaker()
        self.told: list[str] = []
        self._has_room = has_room

    def arrived(self, connection: TlsConnection) -> bool:
        self.told.append("arrived")
        return self._has_room

    def secured(self, connection: TlsConnection) -> asyncio.Protocol:
        self.told.append(f"secured {connection.alpn}")
        return self.speaker

    def failed(self, connection: TlsConnection, error: Exception) -> None:
        self.told.append(f"failed {type(error).__name__}")


class Peer:
    """The other end: OpenSSL on two memory buffers."""

    def __init__(self, context: ssl.SSLContext, server_side: bool) -> None:
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(
            self.incoming,
            self.outgoing,
            server_side=server_side,
            server_hostname=None if server_side else HOST,
        )
        self.is_through = False

    def shake(self) -> None:
        try:
            self.tls.do_handshake()
            self.is_through = True
        except ssl.SSLWantReadError:
            pass

    def sealed(self, data: bytes) -> bytes:
        """Records that hold ``data``."""
        done = 0
        while done < len(data):
            done += self.tls.write(data[done:])
        return self.outgoing.read()

    def goodbye(self) -> bytes:
        """A close_notify."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.unwrap()
        return self.outgoing.read()

    def opened(self, data: bytes) -> tuple[bytes, bool]:
        """What records hold, and whether a close_notify is among them."""
        self.incoming.write(data)
        found = b""
        try:
            while piece := self.tls.read(65536):
                found += piece
        except ssl.SSLWantReadError:
            return found, False
        except ssl.SSLZeroReturnError:
            pass
        return found, True


class Line:
    """The layer, its fake socket, and the peer."""

    def __init__(
        self, own: ssl.SSLContext, peers: ssl.SSLContext, is_server: bool = True
    ) -> None:
        self.owner = Watcher()
        self.speaker = self.owner.speaker
        self.layer = TlsConnection(own, self.owner, None if is_server else HOST)
        self.socket = FakeTransport(self.layer)
        self.peer = Peer(peers, server_side=not is_server)
        self._taken = 0

    def handshake(self) -> Line:
        """To the end of it."""
        for _ in range(4):
            self.peer.incoming.write(self.wire())
            if not self.peer.is_through:
                self.peer.shake()
            self.sends(self.peer.outgoing.read())
        assert self.peer.is_through
        return self

    def sends(self, data: bytes) -> None:
        """Bytes of the peer's."""
        if data:
            self.socket.peer_sends(data)

    def wire(self) -> bytes:
        """What has reached the peer and was not taken yet."""
        data = self.socket.sent[self._taken :]
        self._taken += len(data)
        return data

    def read(self) -> tuple[bytes, bool]:
        """What the peer can read of it."""
        return self.peer.opened(self.wire())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def serving(authority: Authority) -> ssl.SSLContext:
    context = authority.issue("server").serving()
    context.set_alpn_protocols(["h2", "http/1.1"])
    return context


@pytest.fixture
def line(authority: Authority, serving: ssl.SSLContext) -> Line:
    """A server's side, the handshake done."""
    return Line(serving, authority.trusting()).handshake()


@pytest.fixture
def call(authority: Authority, serving: ssl.SSLContext) -> Line:
    """A client's side, the handshake done."""
    return Line(authority.trusting(), serving, is_server=False).handshake()


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
