"""The credentials in use, and their replacement while the gateway runs."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from datetime import UTC, datetime

from smgproxy.tls.contexts import Credentials, server_credentials, worker_credentials
from smgproxy.tls.options import TlsOptions

# What workers are offered that nothing more is known of.
WORKER_ALPN = ("http/1.1",)


class LiveCredentials:
    """One context for clients, and one for workers by what they are offered; ``load``
    replaces all or none."""

    __slots__ = ("_options", "_alpn", "_server", "_workers")

    def __init__(self, options: TlsOptions, alpn: Sequence[str]) -> None:
        """``alpn``: the protocols offered to clients, the best one first."""
        self._options = options
        self._alpn = tuple(alpn)
        self._server: Credentials | None = None
        self._workers: dict[tuple[str, ...], Credentials] = {}

    def load(self) -> list[str]:
        """Read the files, at start and again; warnings, one line each.

        Raises TlsFileError, and what was in use stays in use.
        """
        now = datetime.now(UTC)
        server = server_credentials(self._options, self._alpn, now)
        offers = set(self._workers)
        if self._options.names_worker_files:
            offers.add(WORKER_ALPN)
        workers = {
            alpn: worker_credentials(self._options, alpn, now) for alpn in offers
        }
        self._server, self._workers = server, workers
        # All for workers are of the same files.
        loaded = [server, next(iter(workers.values()), None)]
        return [
            warning for one in loaded if one is not None for warning in one.warnings
        ]

    @property
    def server(self) -> ssl.SSLContext | None:
        """For clients that connect now; None for plain HTTP."""
        return None if self._server is None else self._server.context

    def worker(self, alpn: Sequence[str]) -> ssl.SSLContext:
        """For workers that are dialled now and offered these protocols.

        Made when it is first needed unless a flag names a file: reading the CAs of
        the system takes 20 ms and memory that plain HTTP has no use for.
        """
        key = tuple(alpn)
        made = self._workers.get(key)
        if made is None:
            now = datetime.now(UTC)
            made = worker_credentials(self._options, key, now)
            self._workers[key] = made
        return made.context

    def described(self) -> str:
        """What is in use, for the log."""
        shown = self._server and self._server.expires_at
        until = f", valid until {shown:%Y-%m-%d %H:%M} UTC" if shown else ""
        return f"server certificate {self._options.tls_cert_path or 'none'}{until}"
