"""The TLS layer between a fake socket, a peer of OpenSSL's, and a test."""

from __future__ import annotations

import asyncio
import ssl

import pytest

from smgproxy.tls.connection import TlsConnection
from tests.fakes.certificates import HOST
from tests.fakes.transport import FakeTransport


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
