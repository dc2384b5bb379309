"""One client connection without a socket; the tests play the client."""

from __future__ import annotations

import socket

from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import ResponseHead
from smgproxy.downstream.http1 import Http1Connection
from smgproxy.downstream.listener import ClientTimeouts, Listener
from smgproxy.wire.http1_request import HeadLimits
from tests.fakes.clock import FakeClock
from tests.fakes.transport import FakeTransport

GET = b"GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n"
DATE = (b"date", b"now")
UPLOAD = b"POST /x HTTP/1.1\r\nhost: g\r\ncontent-length: 1000000\r\n\r\n"


class Room:
    """A listener that only remembers its exchanges, and one connection."""

    def __init__(self, sock: socket.socket | None = None, **timeouts: int) -> None:
        self.exchanges: list[Exchange] = []
        self.listener = Listener(
            ClientTimeouts(**timeouts), HeadLimits(), self.exchanges.append
        )
        self.connection = Http1Connection(self.listener)
        self.transport = FakeTransport(self.connection, extra={"socket": sock})

    def ask(self, data: bytes = GET) -> Exchange:
        """The client sends a request."""
        self.transport.peer_sends(data)
        return self.exchanges[-1]

    def is_open_after(self, clock: FakeClock, secs: float) -> bool:
        """Wind the clock and sweep; whether the connection survived."""
        clock.advance(secs)
        self.connection.sweep(clock.now)
        return not self.transport.is_closing()


class Kept(Sink):
    """Where a request's body goes."""

    def __init__(self) -> None:
        super().__init__()
        self.body = b""
        self.error: Exception | None = None

    def write(self, data: bytes, end: bool = False) -> None:
        self.body += data

    def abort(self, error: Exception) -> None:
        self.error = error


def answer(exchange: Exchange, body: bytes = b"ok", status: int = 200) -> None:
    exchange.commit()
    exchange.response.start(ResponseHead(status, [DATE], len(body)))
    exchange.response.write(body, True)


def begin(exchange: Exchange, length: int | None = None) -> Source:
    """Start a streamed response; the source its body comes from."""
    source = Source()
    exchange.commit()
    exchange.response.start(ResponseHead(200, [DATE], length))
    source.join(exchange.response)
    exchange.response.flush()
    return source
