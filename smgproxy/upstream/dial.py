"""A new connection to a worker, secured if its URL says so."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Generic, TypeVar

from smgproxy.tls.connection import TlsConnection
from smgproxy.tls.contexts import reason

_P = TypeVar("_P", bound=asyncio.Protocol)


class _Dialled(Generic[_P]):
    """Who waits for the handshake of one connection."""

    __slots__ = ("inner", "_make")

    def __init__(
        self,
        make: Callable[[str | None], _P],
        inner: asyncio.Future[_P],
    ) -> None:
        self._make = make
        self.inner = inner

    def arrived(self, connection: TlsConnection) -> bool:
        """Connected."""
        return True

    def secured(self, connection: TlsConnection) -> asyncio.Protocol:
        """It is the worker that was meant."""
        inner = self._make(connection.alpn)
        if not self.inner.done():
            self.inner.set_result(inner)
        return inner

    def failed(self, connection: TlsConnection, error: Exception) -> None:
        """It is not, or it went away."""
        if not self.inner.done():
            self.inner.set_exception(error)


async def dial(
    loop: asyncio.AbstractEventLoop,
    host: str,
    port: int,
    make: Callable[[str | None], _P],
    context: ssl.SSLContext | None = None,
) -> _P:
    """Connect, and with ``context`` make sure who answers, by ``host``.

    ``make`` gets the protocol that ALPN chose, None without TLS. Raises OSError, with
    a text that says what is wrong.
    """
    if context is None:
        _, plain = await loop.create_connection(lambda: make(None), host, port)
        return plain
    inner: asyncio.Future[_P] = loop.create_future()
    try:
        connection = TlsConnection(context, _Dialled(make, inner), host)
    except ValueError as error:
        raise OSError(f"no certificate can name {host}: {error}") from None
    is_handed_over = False
    try:
        await loop.create_connection(lambda: connection, host, port)
        protocol = await inner
        is_handed_over = True
        return protocol
    except ssl.SSLError as error:
        raise OSError(reason(error)) from None
    finally:
        if not is_handed_over:
            connection.abort()
            if not inner.cancel() and not inner.cancelled():
                inner.exception()  # looked at, so that asyncio does not complain
