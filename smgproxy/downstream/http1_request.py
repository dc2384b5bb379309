"""A request body of HTTP/1.x on its way in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smgproxy.core.flow import Source

if TYPE_CHECKING:
    from smgproxy.downstream.http1 import Http1Connection

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Http1Request(Source):
    """A request body: its holds become pauses of the client's connection."""

    __slots__ = ("_connection", "_expects_continue")

    def __init__(self, connection: Http1Connection, expects_continue: bool) -> None:
        super().__init__()
        self._connection: Http1Connection | None = connection
        self._expects_continue = expects_continue

    def on_pause(self) -> None:
        """Stop reading from the client."""
        if self._connection is not None:
            self._connection.pause()

    def on_resume(self) -> None:
        """Read from the client again."""
        if self._connection is not None:
            self._connection.resume()

    def on_wanted(self) -> None:
        """Tell a client that waits for it to send its body (RFC 9110 10.1.1)."""
        if self._connection is None:
            return
        self._connection.restart_stall_clock()
        if self._expects_continue and not self.is_ended and not self.delivered:
            self._expects_continue = False
            self._connection.send(_CONTINUE)

    def on_abort(self, error: Exception) -> None:
        """Read on, so that the rest can be thrown away behind the response."""
        self.on_resume()

    def detach(self) -> None:
        """Let go of the connection."""
        self._connection = None
