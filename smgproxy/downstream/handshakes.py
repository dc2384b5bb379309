"""TLS handshakes of clients: counted, bounded and timed like connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from smgproxy.core.clock import monotonic
from smgproxy.tls.connection import TlsConnection

HANDSHAKE_SECS = 10
# Why handshakes fail, as OpenSSL has it; the rest is "malformed".
_REASONS = {
    "HTTP_REQUEST": "plain_http",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "no_certificate",
    "CERTIFICATE_VERIFY_FAILED": "bad_certificate",
    "UNSUPPORTED_PROTOCOL": "no_common_version",
    "NO_SHARED_CIPHER": "no_common_cipher",
    "VERSION_TOO_LOW": "no_common_version",
}


class Handshakes:
    """The connections that are not secured yet; an owner of each of them."""

    __slots__ = ("context", "timeout_secs", "failures", "_running", "_may_come", "_on")

    def __init__(
        self,
        context: ssl.SSLContext,
        timeout_secs: float,
        may_come: Callable[[], bool],
        on_secured: Callable[[str | None], asyncio.Protocol],
    ) -> None:
        """``may_come`` says whether there is room for one more; ``on_secured`` gives
        the protocol for what ALPN chose."""
        # Replaced by a reload: it counts for the connections that come after that.
        self.context = context
        self.timeout_secs = timeout_secs
        self.failures: dict[str, int] = {}  # by reason
        # In order of arrival, so that the first one is the first to run out of time.
        self._running: dict[TlsConnection, float] = {}
        self._may_come = may_come
        self._on = on_secured

    def __len__(self) -> int:
        """Handshakes that are going on."""
        return len(self._running)

    def accept(self) -> TlsConnection:
        """The layer for one more client, not connected yet."""
        return TlsConnection(self.context, self)

    def sweep(self, now: float) -> None:
        """Give up those that take too long."""
        for connection, began in list(self._running.items()):
            if now - began < self.timeout_secs:
                break  # the younger ones come after it
            connection.fail(TimeoutError())

    def cut_all(self) -> None:
        """Drop them all; none has asked for anything yet."""
        for connection in list(self._running):
            del self._running[connection]
            connection.abort()

    # -- the connections' side -------------------------------------------------------

    def arrived(self, connection: TlsConnection) -> bool:
        """A client came; False when there are too many already."""
        if not self._may_come():
            return False
        self._running[connection] = monotonic()
        return True

    def secured(self, connection: TlsConnection) -> asyncio.Protocol:
        """A client may speak; in what protocol, it has said."""
        del self._running[connection]
        return self._on(connection.alpn)

    def failed(self, connection: TlsConnection, error: Exception) -> None:
        """A client will not be heard."""
        if self._running.pop(connection, None) is not None:
            why = _label(error)
            self.failures[why] = self.failures.get(why, 0) + 1


def _label(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timeout"
    if not isinstance(error, ssl.SSLError):
        return "closed"
    name = error.reason or ""
    if "ALERT" in name:
        return "refused_by_client"
    return _REASONS.get(name, "malformed")
