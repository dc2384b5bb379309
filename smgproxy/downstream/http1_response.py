"""A response on its way to an HTTP/1.x client: framing, and one write a call."""

from __future__ import annotations

import http
from typing import TYPE_CHECKING

from smgproxy.core.clock import monotonic
from smgproxy.core.flow import Sink
from smgproxy.core.message import RequestHead, ResponseHead
from smgproxy.downstream.date import date

if TYPE_CHECKING:
    from smgproxy.core.exchange import Exchange
    from smgproxy.downstream.http1 import Http1Connection

# Longer pieces are handed over as they are rather than copied into one buffer.
_COPY_LIMIT = 64 * 1024
_LAST_CHUNK = b"0\r\n\r\n"


def _status_lines(version: bytes) -> list[bytes]:
    """Status lines by number; numbers without a standard phrase get an empty one."""
    phrases = {status.value: status.phrase.encode() for status in http.HTTPStatus}
    return [
        b"HTTP/%b %d %b\r\n" % (version, number, phrases.get(number, b""))
        for number in range(1000)
    ]


_STATUS_11 = _status_lines(b"1.1")
_STATUS_10 = _status_lines(b"1.0")


class Http1Response(Sink):
    """The sink of one response; tells its connection when the last byte is out."""

    __slots__ = (
        "_connection",
        "_exchange",
        "_request",
        "_pending",
        "_is_chunked",
        "_is_flowing",
        "_is_bodiless",
        "_left",
        "keeps_alive",
    )

    def __init__(self, connection: Http1Connection, request: RequestHead) -> None:
        Sink.__init__(self)  # quicker than super(); every request has one
        self._connection: Http1Connection | None = connection
        self._exchange: Exchange | None = None
        self._request = request
        self._pending = b""  # a head held back until the next call
        self._is_chunked = False
        self._is_flowing = False  # chunked, and the head is out
        self._is_bodiless = False
        self._left: int | None = None  # body bytes still owed, None = unknown
        self.keeps_alive = request.keeps_alive

    def belongs_to(self, exchange: Exchange) -> None:
        """Name the exchange whose status and end this sink reports."""
        self._exchange = exchange

    def start(self, head: ResponseHead) -> None:
        """Begin the response; ``head`` holds no framing, that is decided here."""
        connection, exchange, request = self._connection, self._exchange, self._request
        if connection is None:
            return  # the client left; the bytes that follow are dropped
        assert exchange is not None
        exchange.status = status = head.status
        exchange.committed_at = monotonic()
        parts = [(_STATUS_10 if request.is_http10 else _STATUS_11)[status]]
        has_date = False
        for name, value in head.headers:
            parts += (name, b": ", value, b"\r\n")
            if name == b"date":
                has_date = True
        length = head.length
        if status == 101:
            self._switch(connection, exchange, b"".join(parts[1:]))
            return
        if status == 204 or status == 304:
            framing = b""
            self._is_bodiless = True
        elif length is not None:
            framing = b"content-length: %d\r\n" % length
            self._left = length
        elif not request.is_http10:
            framing = b"transfer-encoding: chunked\r\n"
            self._is_chunked = True
        else:
            framing = b""
            self.keeps_alive = False  # the end of the connection ends the body
        if request.method == "HEAD":
            self._is_bodiless = True
            self._is_chunked = False
        if not connection.may_keep_alive():
            self.keeps_alive = False
        if not self.keeps_alive:
            framing += b"connection: close\r\n"
        elif request.is_http10:
            framing += b"connection: keep-alive\r\n"
        if not has_date:
            framing += date.line()
        parts += (framing, b"\r\n")
        self._pending = b"".join(parts)

    def write(self, data: bytes, end: bool = False) -> None:
        """Frame and send the next bytes, with a held-back head before them."""
        connection = self._connection
        if connection is None:
            return
        if self._is_flowing and data and not end:
            # An event of a stream: nothing but its chunk is to be made.
            transport = connection.transport
            if transport is not None and not transport.is_closing():
                transport.write(b"%x\r\n%b\r\n" % (len(data), data))
            return
        if self._is_bodiless:
            data = b""
        elif self._is_chunked:
            if data:
                data = (b"%x\r\n%b\r\n0\r\n\r\n" if end else b"%x\r\n%b\r\n") % (
                    len(data),
                    data,
                )
            elif end:
                data = _LAST_CHUNK
        elif self._left is not None and not (end and len(data) == self._left):
            data = self._within_length(data, end)
        if self._pending:
            if len(data) > _COPY_LIMIT:
                connection.send(self._pending)
            else:
                data = self._pending + data
            self._pending = b""
            self._is_flowing = self._is_chunked
        if data:
            connection.send(data)
        if end:
            self._finish(connection)

    def flush(self) -> None:
        """Send a head that nothing followed yet."""
        if self._pending and self._connection is not None:
            pending, self._pending = self._pending, b""
            self._is_flowing = self._is_chunked
            self._connection.send(pending)

    def abort(self, error: Exception) -> None:
        """The body broke: whoever waits for the exchange decides what follows.

        With nobody waiting the connection is cut, so that the client cannot take the
        truncated body for a whole one.
        """
        exchange = self._exchange
        if exchange is not None and exchange.done is not None:
            if not exchange.done.done():
                exchange.done.set_exception(error)
        elif self._connection is not None:
            self.flush()
            self._connection.cut()

    def detach(self) -> None:
        """The client is gone: drop every pointer towards it."""
        self._connection = None
        self._exchange = None

    def _switch(
        self, connection: Http1Connection, exchange: Exchange, fields: bytes
    ) -> None:
        """Send a 101; the exchange's body and response are the connection's now."""
        self.detach()
        connection.upgrade(
            exchange,
            b"%bconnection: upgrade\r\nupgrade: websocket\r\n%b%b\r\n"
            % (_STATUS_11[101], date.line(), fields),
        )

    def _within_length(self, data: bytes, end: bool) -> bytes:
        """Never send more than was announced; announce a close when it was less."""
        assert self._left is not None
        if len(data) > self._left:
            data = data[: self._left]
        self._left -= len(data)
        if end and self._left:
            self.keeps_alive = False
        return data

    def _finish(self, connection: Http1Connection) -> None:
        exchange, self._exchange = self._exchange, None
        self._connection = None
        self.source = None
        if exchange is not None:
            exchange.complete()
        connection.on_response_end(self.keeps_alive)
