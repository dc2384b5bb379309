"""The body of a request on its way to a worker while its client still sends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smgproxy.core.errors import UpstreamError
from smgproxy.core.flow import Hold, Sink

if TYPE_CHECKING:
    from smgproxy.upstream.http1 import WorkerConnection


class Http1Upload(Sink):
    """A body in the chunked coding, or of a set length: each piece is one write.

    Begins with the request's head, which waits for the first piece or for ``flush``.
    Once its connection has let go of it, what is written goes nowhere.
    """

    __slots__ = ("_connection", "_pending", "_is_chunked")

    def __init__(
        self, connection: WorkerConnection, head: bytes, is_chunked: bool = True
    ) -> None:
        super().__init__()
        self._is_chunked = is_chunked
        self._connection: WorkerConnection | None = connection
        self._pending = head

    @property
    def awaits_client(self) -> bool:
        """Whether the next move is its client's."""
        return self.source is not None and self.source.is_awaited

    def write(self, data: bytes, end: bool = False) -> None:
        """Send the next bytes; an empty piece that is not the last is none.

        In the chunked coding it would end the body.
        """
        connection = self._connection
        if connection is None or not (data or end):
            return
        head, self._pending = self._pending, b""
        if not self._is_chunked:
            connection.transmit(head, data)
        elif not data:
            connection.transmit(head + b"0\r\n\r\n")
        else:
            tail = b"\r\n0\r\n\r\n" if end else b"\r\n"
            connection.transmit(b"%b%x\r\n" % (head, len(data)), data, tail)
        if end and self._connection is not None:
            self._connection = None
            connection.on_upload_end()
            source, self.source = self.source, None
            if source is not None:
                # Nothing is left to hold back, and its client's leaving is to be seen.
                source.release(Hold.SINK_FULL)

    def flush(self) -> None:
        """Send the head if nothing has followed it yet."""
        if self._pending and self._connection is not None:
            head, self._pending = self._pending, b""
            self._connection.transmit(head)

    def abort(self, error: Exception) -> None:
        """The client's body broke off: the attempt fails with what broke it."""
        if self._connection is not None:
            self._connection.on_upload_failed(error)

    def drop(self) -> None:
        """The connection carries no more of it: stop the client's side."""
        self._connection = None
        self._pending = b""
        source, self.source = self.source, None
        if source is not None:
            source.abort(UpstreamError("the worker takes no more of the request"))
