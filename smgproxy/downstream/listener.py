"""Listening sockets and the set of connections they brought."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
from collections.abc import Callable
from typing import Protocol

from smgproxy.core.clock import Sweeper
from smgproxy.core.exchange import Exchange
from smgproxy.core.options import flag
from smgproxy.core.turns import ReadTurns
from smgproxy.downstream.handshakes import HANDSHAKE_SECS, Handshakes
from smgproxy.downstream.http1 import Http1Connection
from smgproxy.downstream.http2 import Http2Connection
from smgproxy.downstream.http2_stats import Http2Stats
from smgproxy.downstream.websocket import ClientSocket
from smgproxy.wire.http1_request import HeadLimits

_GROUP = "Request Handling"
SWEEP_SECS = 0.5
# Bytes a client may leave unread before its source is held, and where it goes on.
HIGH_WATER = 64 * 1024
LOW_WATER = 16 * 1024
BACKLOG = 4096
# What the kernel takes of a response beyond what is on its way. Left alone it would
# take 4 MB for a client that reads nothing, and while it is filled others wait.
UNSENT_BYTES = 128 * 1024


@dataclasses.dataclass(frozen=True)
class ClientTimeouts:
    """Deadlines on clients; each in whole seconds, 0 switches it off."""

    header_read_timeout_secs: int = flag(
        30,
        "--header-read-timeout-secs",
        _GROUP,
        "close a connection whose request head stays incomplete this long; 0 = off",
        minimum=0,
    )
    idle_connection_timeout_secs: int = flag(
        90,
        "--idle-connection-timeout-secs",
        _GROUP,
        "close a client connection that is idle between requests this long; 0 = off",
        minimum=0,
    )
    stream_body_stall_timeout_secs: int = flag(
        300,
        "--stream-body-stall-timeout-secs",
        _GROUP,
        "answer 408 when a client sends no byte of its request body this long; 0 = off",
        minimum=0,
    )
    client_send_timeout_secs: int = flag(
        300,
        "--client-send-timeout-secs",
        _GROUP,
        "cut a client that takes no byte of its response this long; 0 = off",
        minimum=0,
    )
    max_connections: int = flag(
        65536,
        "--max-connections",
        _GROUP,
        "client connections open at once; more are closed on arrival",
        minimum=1,
    )
    http2_max_concurrent_streams: int = flag(
        256,
        "--http2-max-concurrent-streams",
        _GROUP,
        "requests that one HTTP/2 connection may run at once; more are refused",
        minimum=1,
        maximum=65536,
    )


class ClientConnection(Protocol):
    """A client's connection, of whatever protocol."""

    def sweep(self, now: float) -> None:
        """Look at the deadlines."""

    def drain(self) -> None:
        """Close now if idle, else behind what runs."""

    def cut(self) -> None:
        """Drop the connection at once."""


class Listener:
    """Accepts clients and knows which of them are still here."""

    __slots__ = (
        "timeouts",
        "head_limits",
        "on_exchange",
        "high_water",
        "low_water",
        "is_draining",
        "accepted",
        "turned_away",
        "malformed",
        "http2",
        "handshakes",
        "turns",
        "_connections",
        "_servers",
        "_sweeper",
    )

    def __init__(
        self,
        timeouts: ClientTimeouts,
        head_limits: HeadLimits,
        on_exchange: Callable[[Exchange], None],
    ) -> None:
        self.timeouts = timeouts
        self.head_limits = head_limits
        self.on_exchange = on_exchange
        self.high_water = HIGH_WATER
        self.low_water = LOW_WATER
        self.is_draining = False
        self.accepted = 0
        self.turned_away = 0
        self.malformed: dict[int, int] = {}  # by status of the refusal
        self.http2 = Http2Stats()
        self._connections: set[ClientConnection] = set()
        self.handshakes: Handshakes | None = None  # when clients speak TLS
        self.turns: ReadTurns | None = None  # once it has started
        self._servers: list[asyncio.Server] = []
        self._sweeper: Sweeper | None = None

    @property
    def open_connections(self) -> int:
        """Connections that exist at this moment, those in a handshake included."""
        return len(self._connections) + len(self.handshakes or ())

    def ports(self) -> list[int]:
        """The TCP ports it accepts on."""
        names = [s.getsockname() for srv in self._servers for s in srv.sockets]
        return [name[1] for name in names if isinstance(name, tuple)]

    @property
    def failed_handshakes(self) -> dict[str, int]:
        """How many TLS handshakes came to nothing, by reason."""
        return self.handshakes.failures if self.handshakes is not None else {}

    async def start(
        self,
        sockets: list[socket.socket],
        tls: ssl.SSLContext | None = None,
        handshake_timeout_secs: float = HANDSHAKE_SECS,
    ) -> None:
        """Accept on ``sockets``, which are bound; with ``tls``, HTTPS alone."""
        loop = asyncio.get_running_loop()
        self._sweeper = Sweeper(loop.call_later, SWEEP_SECS, self._sweep)
        self.turns = ReadTurns(loop.call_soon)
        accept: Callable[[], asyncio.Protocol] = self._speaker
        if tls is not None:
            self.handshakes = Handshakes(
                tls, handshake_timeout_secs, self._has_room, self._speaker
            )
            accept = self.handshakes.accept
        for sock in sockets:
            _bound_unsent(sock)
            self._servers.append(
                await loop.create_server(accept, sock=sock, backlog=BACKLOG)
            )

    def use_tls(self, context: ssl.SSLContext) -> None:
        """Another context, for handshakes that begin from now on."""
        if self.handshakes is not None:
            self.handshakes.context = context

    def stop_accepting(self) -> None:
        """Close the listening sockets: new connections are refused by the kernel."""
        for server in self._servers:
            server.close()
        self._servers.clear()

    def drain(self) -> None:
        """Close what is idle now, and the rest behind its running response."""
        self.is_draining = True
        if self.handshakes is not None:
            self.handshakes.cut_all()
        for connection in list(self._connections):
            connection.drain()

    def cut_all(self) -> None:
        """Drop every connection at once."""
        if self.handshakes is not None:
            self.handshakes.cut_all()
        for connection in list(self._connections):
            connection.cut()

    def close(self) -> None:
        """Stop everything."""
        self.stop_accepting()
        self.cut_all()
        if self._sweeper is not None:
            self._sweeper.close()
            self._sweeper = None

    # -- the connections' side -------------------------------------------------------

    def opened(self, connection: ClientConnection) -> bool:
        """A connection came; False when there are too many already."""
        self._connections.add(connection)
        if self.open_connections > self.timeouts.max_connections:
            self.turned_away += 1
            return False
        self.accepted += 1
        return True

    def closed(self, connection: ClientConnection) -> None:
        """A connection is gone."""
        self._connections.discard(connection)

    def switch(
        self, connection: ClientConnection, transport: asyncio.Transport
    ) -> Http2Connection:
        """A client that had said nothing yet turns out to speak HTTP/2."""
        self._connections.discard(connection)
        self.accepted -= 1
        successor = Http2Connection(self)
        transport.set_protocol(successor)
        successor.connection_made(transport)
        return successor

    def upgrade(
        self,
        connection: ClientConnection,
        transport: asyncio.Transport,
        exchange: Exchange,
        head: bytes,
        early: bytes,
    ) -> None:
        """A client speaks WebSocket from now on, and has from ``early`` on."""
        self._connections.discard(connection)
        successor = ClientSocket(self, transport, exchange)
        self._connections.add(successor)
        transport.set_protocol(successor)
        successor.begin(head, early)

    def refused(self, status: int) -> None:
        """A connection sent bytes that are no request."""
        self.malformed[status] = self.malformed.get(status, 0) + 1

    def _speaker(self, alpn: str | None = None) -> asyncio.Protocol:
        """The protocol of a new client, by what it chose in its TLS handshake."""
        return Http2Connection(self) if alpn == "h2" else Http1Connection(self)

    def _has_room(self) -> bool:
        """Whether one more may shake hands."""
        if self.open_connections < self.timeouts.max_connections:
            return True
        self.turned_away += 1
        return False

    def _sweep(self, now: float) -> None:
        if self.handshakes is not None:
            self.handshakes.sweep(now)
        for connection in list(self._connections):
            connection.sweep(now)


def bind(host: str, port: int, reuse_port: bool = False) -> socket.socket:
    """A bound TCP socket; raises OSError when the address cannot be had.

    ``host`` is an IPv4 or IPv6 address or a name that resolves to one. An IPv6
    wildcard also takes IPv4 clients.
    """
    found = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, proto, _, address = found[0]
    sock = socket.socket(family, kind, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6 and host in ("::", ""):
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(address)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def _bound_unsent(sock: socket.socket) -> None:
    """Of a listening socket, which hands it on to what it accepts."""
    if sock.family != socket.AF_UNIX and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
