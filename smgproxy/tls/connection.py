"""TLS between a socket and the protocol that speaks in clear.

The event loop has such a layer too. This one exists because of what that one hides:
it makes the inner protocol before ALPN has chosen one; nobody can see, count or bound
the handshakes that are going on; it drops what a slow reader has yet to take when the
worker closes behind its answer; it cannot half-close; and a large body is encrypted
in one go, or counted in two buffers of which one is invisible.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, Protocol, cast

from smgproxy.tls.records import Data, Records

# Encrypted before the socket is asked again whether it takes more, so that a large
# body does not exist twice; and the most in one turn of the event loop (a millisecond).
BATCH_BYTES = 64 * 1024
TURN_BYTES = 1024 * 1024


class Owner(Protocol):
    """Who is told about a handshake; each call comes once at most."""

    def arrived(self, connection: TlsConnection) -> bool:
        """The socket is there, the handshake begins; False to drop it."""

    def secured(self, connection: TlsConnection) -> asyncio.Protocol:
        """The handshake is done: the protocol that takes over."""

    def failed(self, connection: TlsConnection, error: Exception) -> None:
        """There will be no handshake. Not called for what ``arrived`` refused."""


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """One connection: a protocol to its socket, a transport to its inner protocol.

    Everything that came is decrypted and delivered at once, so reading is paused and
    an end is seen exactly as without TLS; the socket's transport has the one write
    buffer, and what it has no room for waits here unencrypted.
    """

    __slots__ = (
        "_records",
        "_owner",
        "_inner",
        "_socket",
        "_backlog",
        "_backlog_bytes",
        "_error",
        "_is_server",
        "_is_full",
        "_is_inner_paused",
        "_is_going_on",
        "_is_paused",
        "_is_ended",
        "_is_finishing",
        "_is_closing",
        "_has_said_goodbye",
    )

    def __init__(
        self, context: ssl.SSLContext, owner: Owner, server_name: str | None = None
    ) -> None:
        """A client's side with ``server_name``, whom to talk to; else a server's.

        Raises ValueError when the name cannot be one.
        """
        self._records = Records(context, server_name)
        self._is_server = server_name is None
        self._owner: Owner | None = owner
        self._inner: asyncio.Protocol | None = None
        self._socket: asyncio.Transport | None = None
        self._backlog: deque[memoryview] = deque()
        self._backlog_bytes = 0
        self._error: Exception | None = None
        self._is_full = False  # the socket's transport asked for a pause
        self._is_inner_paused = False
        self._is_going_on = False  # the backlog's next turn is scheduled
        self._is_paused = False  # reading, by the inner protocol
        self._is_ended = False  # the peer will send no more
        self._is_finishing = False  # nothing more will be written
        self._is_closing = False
        self._has_said_goodbye = False

    @property
    def alpn(self) -> str | None:
        """The protocol both sides agreed on; None when the peer named none of ours."""
        return self._records.tls.selected_alpn_protocol()

    # -- the socket's side -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is connected: begin the handshake."""
        # uvloop's transports are no subclass of asyncio's.
        self._socket = cast(asyncio.Transport, transport)
        assert self._owner is not None
        if not self._owner.arrived(self):
            self._owner = None
            self.abort()
        elif not self._is_server:
            self._shake_hands()

    def data_received(self, data: bytes) -> None:
        """Records, or parts of them; one delivery for one read."""
        self._records.put(data)
        if self._inner is not None or self._shake_hands():
            self._read()

    def eof_received(self) -> bool:
        """The end of the bytes; said before by a close_notify, if all is well."""
        if self._inner is None:
            self.fail(ConnectionResetError("closed within the handshake"))
        elif not self._is_ended:
            self._is_ended = True
            if self._is_server:
                # Many clients leave so, and RFC 9112 section 9.8 wants it put up with.
                self._inner.eof_received()
            else:
                # A body that ends with its connection may have been cut by anybody.
                self._error = ConnectionResetError("closed without close_notify")
                self.abort()
        return False  # the socket's transport closes

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone, whoever closed it."""
        inner, self._inner = self._inner, None
        self._socket = None
        self._drop_backlog()
        if inner is not None:
            inner.connection_lost(error or self._error)
        else:
            self._settle(error or ConnectionResetError("closed within the handshake"))

    def pause_writing(self) -> None:
        """The socket takes no more."""
        self._is_full = True
        self._pause_inner()

    def resume_writing(self) -> None:
        """There is room again: for what waits here, then for the inner protocol."""
        self._is_full = False
        self._go_on()

    # -- the owner's side ------------------------------------------------------------

    def fail(self, error: Exception) -> None:
        """Give the handshake up; what it says to the peer about that still leaves."""
        self._settle(error)
        sock = self._socket
        self._is_closing = True
        if sock is None:
            return
        if sock.get_write_buffer_size():
            sock.abort()  # nobody would wait for a peer that does not read
        else:
            sock.close()

    # -- the inner protocol's side ---------------------------------------------------

    def write(self, data: Data) -> None:
        """Encrypt and send, now or when there is room."""
        if self._is_finishing or self.is_closing() or not data:
            return
        if self._is_full or self._backlog or len(data) > BATCH_BYTES:
            self._append(data)
            self._empty_backlog()
        else:
            self._records.seal(data)
            self._flush()

    def writelines(self, list_of_data: Iterable[Data]) -> None:
        """Several pieces, sent together."""
        if self._is_finishing or self.is_closing():
            return
        for data in list_of_data:
            if data:
                self._append(data)
        self._empty_backlog()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Another inner protocol, which hears of everything from now on."""
        self._inner = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol | None:  # type: ignore[override]
        """The inner protocol; None before the handshake, and when all is over."""
        return self._inner

    def can_write_eof(self) -> bool:
        """A close_notify, and a FIN behind it; reading goes on."""
        return True

    def write_eof(self) -> None:
        """Half-close, behind what has been written."""
        if not self._is_finishing and not self.is_closing():
            self._is_finishing = True
            if not self._backlog:
                self._finish()

    def close(self) -> None:
        """Close behind what has been written; nothing more is read."""
        if self.is_closing():
            return
        if self._backlog:
            self.pause_reading()
        self._is_closing = self._is_finishing = True
        if self._inner is None:
            self.abort()
        elif not self._backlog:
            self._finish()

    def abort(self) -> None:
        """Drop the connection now, unsent bytes included."""
        self._is_closing = True
        self._drop_backlog()
        if self._socket is not None:
            self._socket.abort()

    def is_closing(self) -> bool:
        """Whether it ends, or has ended."""
        sock = self._socket
        return self._is_closing or sock is None or sock.is_closing()

    def pause_reading(self) -> None:
        """Read nothing from the socket."""
        if not self._is_paused and not self.is_closing():
            self._is_paused = True
            assert self._socket is not None
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._is_paused and not self.is_closing():
            self._is_paused = False
            assert self._socket is not None
            self._socket.resume_reading()

    def is_reading(self) -> bool:
        """Whether what comes in is delivered."""
        return not self._is_paused and not self.is_closing()

    def set_write_buffer_limits(
        self, high: int | None = None, low: int | None = None
    ) -> None:
        """The marks of the one buffer there is, in bytes as they leave."""
        if self._socket is not None:
            self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Bytes that the kernel has not taken yet, encrypted or not."""
        sock = self._socket
        return 0 if sock is None else self._backlog_bytes + sock.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """``ssl_object``, or what the socket's transport knows."""
        if name == "ssl_object":
            return self._records.tls
        sock = self._socket
        return default if sock is None else sock.get_extra_info(name, default)

    # -- inside ----------------------------------------------------------------------

    def _shake_hands(self) -> bool:
        """Go on with the handshake; True when that ended it well."""
        owner = self._owner
        if owner is None:
            return False  # given up
        try:
            is_done = self._records.shake_hands()
        except ssl.SSLError as error:
            self._flush()  # an alert that says why
            self.fail(error)
            return False
        self._flush()
        if not is_done:
            return False
        self._owner = None
        self._inner = owner.secured(self)
        self._inner.connection_made(self)
        return True

    def _settle(self, error: Exception) -> None:
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.failed(self, error)

    def _read(self) -> None:
        records = self._records
        data = records.opened()
        if records.waiting:
            self._flush()
        if data and self._inner is not None and not self.is_closing():
            self._inner.data_received(data)
        if records.error is not None:
            self._error = records.error
            self.abort()
        elif records.is_over:
            self._end()

    def _end(self) -> None:
        """The peer said that it will send no more."""
        if self._is_ended or self._inner is None or self.is_closing():
            return
        self._is_ended = True
        if not self._inner.eof_received():
            self.close()

    def _append(self, data: Data) -> None:
        self._backlog.append(memoryview(data))
        self._backlog_bytes += len(data)

    def _drop_backlog(self) -> None:
        self._backlog.clear()
        self._backlog_bytes = 0

    def _empty_backlog(self) -> None:
        """Encrypt and send as long as the socket takes it, or this turn lasts."""
        backlog, records = self._backlog, self._records
        last = self._backlog_bytes - TURN_BYTES
        while backlog and not self._is_full and self._is_writable():
            if self._backlog_bytes < last:
                self._later()
                break
            while backlog and records.waiting < BATCH_BYTES:
                view = backlog[0]
                if len(view) > BATCH_BYTES:
                    backlog[0] = view[BATCH_BYTES:]
                    view = view[:BATCH_BYTES]
                else:
                    backlog.popleft()
                self._backlog_bytes -= len(view)
                records.seal(view)
            self._flush()

    def _later(self) -> None:
        """The others first: a fast peer could keep the loop here for a whole body."""
        self._pause_inner()
        if not self._is_going_on:
            self._is_going_on = True
            asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_going_on = False
        if not self._is_full:
            self._go_on()

    def _go_on(self) -> None:
        self._empty_backlog()
        if self._is_full or self._backlog:
            return
        if self._is_finishing:
            if not self._has_said_goodbye:
                self._finish()
        elif self._is_inner_paused and self._inner is not None:
            self._is_inner_paused = False
            self._inner.resume_writing()

    def _pause_inner(self) -> None:
        is_heard = self._inner is not None and not self._is_closing
        if is_heard and not self._is_inner_paused:
            assert self._inner is not None
            self._is_inner_paused = True
            self._inner.pause_writing()

    def _is_writable(self) -> bool:
        sock = self._socket
        return sock is not None and not sock.is_closing()

    def _flush(self) -> None:
        """One write of all records there are."""
        data = self._records.taken()
        if data and self._is_writable() and not self._has_said_goodbye:
            assert self._socket is not None
            self._socket.write(data)

    def _finish(self) -> None:
        """Everything is out: say goodbye, then half-close or close."""
        if not self._has_said_goodbye:
            self._records.say_goodbye()
            self._flush()
            self._has_said_goodbye = True
        sock = self._socket
        if sock is None or sock.is_closing():
            return
        if self._is_closing:
            sock.close()
        else:
            sock.write_eof()
