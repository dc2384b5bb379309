"""One HTTP/1.x client connection: feeds the reader, writes responses, reports loss."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from smgproxy.core.clock import monotonic
from smgproxy.core.connection import BY_SOURCE, BY_TURN, Connection
from smgproxy.core.errors import BodyAborted, BodyStalled
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.flow import BACKLOG_BYTES, Hold
from smgproxy.core.message import RequestHead
from smgproxy.core.turns import LARGE_READ_BYTES
from smgproxy.downstream.date import date
from smgproxy.downstream.http1_request import Http1Request
from smgproxy.downstream.http1_response import Http1Response
from smgproxy.downstream.peer import address_of, has_hung_up
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http1_request import Http2Preface, RequestReader
from smgproxy.wire.http2 import PREFACE_HEAD

if TYPE_CHECKING:
    from smgproxy.downstream.listener import Listener

_REFUSALS = {
    400: b"HTTP/1.1 400 Bad Request\r\n",
    414: b"HTTP/1.1 414 URI Too Long\r\n",
    431: b"HTTP/1.1 431 Request Header Fields Too Large\r\n",
    505: b"HTTP/1.1 505 HTTP Version Not Supported\r\n",
}
_REFUSAL_FIELDS = b"content-length: 0\r\nconnection: close\r\n\r\n"
# How long, and how much, is still read after a response that came before the end of
# the upload: closing at once would reset the connection and could destroy the
# response on its way (RFC 9112 section 9.6).
LINGER_SECS = 2.0
LINGER_BYTES = 4 * 1024 * 1024
# Other reasons why reading is paused: a request that waits, others' turn.
_BY_PIPELINE = BY_TURN << 1


class Http1Connection(Connection, asyncio.Protocol):
    """One client; at most one exchange at a time, later requests wait as bytes."""

    __slots__ = (
        "_listener",
        "_reader",
        "_exchange",
        "_source",
        "_response",
        "_is_request_complete",
        "_pipelined",
        "_is_full",
        "_is_fresh",
        "_unsent_bytes",
        "_lingered",
        "_since",
        "_head_began",
        "_peer",
    )

    def __init__(self, listener: Listener) -> None:
        super().__init__()
        self._listener = listener
        self._reader = RequestReader(self, listener.head_limits)
        self._exchange: Exchange | None = None
        self._source: Http1Request | None = None
        self._response: Http1Response | None = None
        self._is_request_complete = True
        self._pipelined = b""
        self._is_fresh = True  # no request has come
        self._is_full = False  # the client has yet to read what it was sent
        self._unsent_bytes = 0  # of a response that is over, when last looked at
        self._lingered = -1  # bytes thrown away since the last response, -1 = open
        self._since = monotonic()  # the last moment something happened
        self._head_began = self._since  # when the wait for a head began, 0 = idle
        self._peer = ""

    # -- asyncio's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client connected."""
        # uvloop's transports are no subclass of asyncio's.
        self.transport = transport = cast(asyncio.Transport, transport)
        listener = self._listener
        self._peer = address_of(transport)
        transport.set_write_buffer_limits(listener.high_water, listener.low_water)
        if not listener.opened(self):
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Bytes of a request, of its body, or of the request after it."""
        self._since = monotonic()
        if self._lingered >= 0:
            self._lingered += len(data)
            if self._lingered > LINGER_BYTES:
                self.cut()
        elif self._is_request_complete and (
            self._exchange is not None or self._is_full
        ):
            self._pipelined += data
            if len(self._pipelined) >= BACKLOG_BYTES:
                self.pause(_BY_PIPELINE)
        else:
            self._feed(data)
        if len(data) >= LARGE_READ_BYTES and self._listener.turns is not None:
            self.wait_for_turn(self._listener.turns, len(data))

    def eof_received(self) -> bool:
        """The end of the client's byte stream: it is gone (ruling 15)."""
        self._client_gone()
        return False  # asyncio closes the transport

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, whoever closed it."""
        self._client_gone()
        self.transport = None
        self._reader.close()
        self._listener.closed(self)

    def pause_writing(self) -> None:
        """The client reads too slowly: hold whoever feeds the response."""
        self._is_full = True
        self._since = monotonic()
        response = self._response
        if response is not None and response.source is not None:
            response.source.hold(Hold.SINK_FULL)

    def resume_writing(self) -> None:
        """There is room again."""
        self._is_full = False
        self._since = monotonic()
        response = self._response
        if response is not None:
            if response.source is not None:
                response.source.release(Hold.SINK_FULL)
        elif self._lingered < 0:
            self._go_on()

    # -- the reader's side -----------------------------------------------------------

    def on_head(self, head: RequestHead) -> None:
        """A request begins: open an exchange."""
        self._source = source = Http1Request(self, head.expects_continue)
        self._response = response = Http1Response(self, head)
        exchange = Exchange(head, source, response, self._peer, self._since)
        response.belongs_to(exchange)
        self._exchange = exchange
        self._is_request_complete = False
        self._head_began = 0.0
        self._is_fresh = False
        self._listener.on_exchange(exchange)

    def on_body(self, data: bytes, end: bool) -> None:
        """Body bytes of the request."""
        if end:
            self._is_request_complete = True
        assert self._source is not None
        self._source.deliver(data, end)

    # -- the response's and the source's side ----------------------------------------

    def may_keep_alive(self) -> bool:
        """Whether another request may follow on this connection."""
        return self._is_request_complete and not self._listener.is_draining

    def send(self, data: bytes) -> None:
        """Write at once; silently nothing when the socket is already going."""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            transport.write(data)

    def upgrade(self, exchange: Exchange, head: bytes) -> None:
        """Answer with ``head``; what came behind the request is no HTTP any more."""
        self._let_go()
        self.resume(_BY_PIPELINE | BY_TURN)  # whoever reads on has pauses of its own
        transport, self.transport = self.transport, None
        early, self._pipelined = self._pipelined, b""
        self._reader.close()
        if transport is not None:
            self._listener.upgrade(self, transport, exchange, head, early)

    def on_response_end(self, keeps_alive: bool) -> None:
        """The response's last byte is out: go on, or close in good order."""
        self._let_go()
        self._since = monotonic()
        if not self._is_request_complete:
            self._linger()
        elif not keeps_alive or self._listener.is_draining:
            self._close()
        else:
            self._go_on()

    def on_read_on(self) -> None:
        """The client could not be heard meanwhile: its clock begins anew."""
        self._since = monotonic()

    def restart_stall_clock(self) -> None:
        """The client's turn begins now."""
        self._since = monotonic()

    def cut(self) -> None:
        """Drop the connection at once, unsent bytes included."""
        if self.transport is not None:
            self.transport.abort()

    # -- the listener's side ---------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no request is being read or answered."""
        return self._exchange is None and not self._reader.is_mid_head

    def sweep(self, now: float) -> None:
        """Look at the deadlines; called about twice a second."""
        response = self._response
        if response is None or (
            response.source is not None and response.source.is_ended
        ):
            self._sweep_between(now)
        elif self._is_full:
            self._sweep_unread(now)
        elif not self._is_request_complete and self._awaits_body():
            stall = self._listener.timeouts.stream_body_stall_timeout_secs
            if stall and now - self._since > stall and self._source is not None:
                self._source.fail(BodyStalled(stall))
        if self._pauses and self.transport and has_hung_up(self.transport):
            # Nothing is read while paused, so the end would go unseen (ruling 16).
            self._client_gone()
            self.cut()

    def drain(self) -> None:
        """Close now if idle, else behind the response that runs."""
        if self.is_idle and self._lingered < 0:
            self._close()

    # -- inside ----------------------------------------------------------------------

    def _go_on(self) -> None:
        """Take the next pipelined request, if its client reads its responses."""
        if self._pipelined and not self._is_full:
            pipelined, self._pipelined = self._pipelined, b""
            self.resume(_BY_PIPELINE)
            self._feed(pipelined)

    def _feed(self, data: bytes) -> None:
        if self._exchange is None and not self._head_began:
            self._head_began = self._since
        try:
            rest = self._reader.feed(data)
        except Http2Preface as preface:
            if self._is_fresh and self.transport is not None:
                self._switch(self.transport, preface.rest)
            else:
                self._refuse(preface)
            return
        except BadMessage as error:
            self._refuse(error)
            return
        if rest:
            self._pipelined = rest
            if len(rest) >= BACKLOG_BYTES:
                self.pause(_BY_PIPELINE)

    def _switch(self, transport: asyncio.Transport, rest: bytes) -> None:
        """The client speaks HTTP/2 by prior knowledge (RFC 9113 section 3.3)."""
        self.transport = None
        self._reader.close()
        successor = self._listener.switch(self, transport)
        successor.data_received(PREFACE_HEAD + rest)

    def _refuse(self, error: BadMessage) -> None:
        """Bytes that are no request: answer if that can be understood, and close."""
        self._listener.refused(error.status)
        if self._exchange is not None:
            # The body's framing broke: what else comes means nothing.
            self._lingered = 0
            if self._source is not None:
                self._source.fail(BodyAborted())
            return
        self.send(_REFUSALS[error.status] + date.line() + _REFUSAL_FIELDS)
        self._linger()

    def _linger(self) -> None:
        """Half-close, then read and drop until the client closes or time is up."""
        self._lingered = 0
        self._since = monotonic()
        self.half_close()

    def _close(self) -> None:
        self._lingered = 0
        if self.transport is not None:
            self.transport.close()

    def _let_go(self) -> None:
        """Cut the pointers between this connection and its exchange."""
        if self._source is not None:
            self._source.detach()
            if self._pauses:
                self.resume(BY_SOURCE)
        self._exchange = self._source = self._response = None

    def _client_gone(self) -> None:
        exchange, response, source = self._exchange, self._response, self._source
        self._let_go()
        self._pipelined = b""
        if response is not None:
            response.detach()
            if response.source is not None:
                # At once, so that the worker stops now and not a loop turn later.
                response.source.abort(BodyAborted())
        if exchange is not None:
            exchange.cancel(Verdict.CLIENT_GONE)
        if source is not None:
            source.abort(BodyAborted())

    def _awaits_body(self) -> bool:
        return self._source is not None and self._source.is_awaited

    def _sweep_between(self, now: float) -> None:
        """No worker and no upload is waited for: the next move is the client's."""
        limits = self._listener.timeouts
        limit: float = limits.idle_connection_timeout_secs
        since = self._since
        transport = self.transport
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        if unsent:
            # It reads its response, and is idle only when that does not move.
            if unsent != self._unsent_bytes:
                since = self._since = now
        elif self._lingered >= 0:
            limit = LINGER_SECS
        elif self._head_began:
            limit, since = limits.header_read_timeout_secs, self._head_began
        self._unsent_bytes = unsent
        if limit and now - since > limit:
            self.cut()

    def _sweep_unread(self, now: float) -> None:
        """A response runs whose client has yet to read what it was sent."""
        transport = self.transport
        unsent = 0 if transport is None else transport.get_write_buffer_size()
        if unsent != self._unsent_bytes:
            self._unsent_bytes = unsent
            self._since = now
        limit = self._listener.timeouts.client_send_timeout_secs
        if limit and now - self._since > limit:
            self._client_gone()
            self.cut()
