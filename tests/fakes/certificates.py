"""Certificates made for one test run, and the contexts that go with them."""

from __future__ import annotations

import dataclasses
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import trustme

HOST = "127.0.0.1"
EXPIRED = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)


@dataclasses.dataclass(frozen=True)
class Pair:
    """The files of one certificate."""

    cert: str
    key: str

    def serving(self, client_ca: str | None = None) -> ssl.SSLContext:
        """The context of a server that shows it."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.cert, self.key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context


class Authority:
    """A CA in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._ca = trustme.CA()
        self._folder = folder
        self.path = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.path)

    def issue(self, name: str, *names: str, **how: Any) -> Pair:
        """A certificate for ``names`` (this machine, if none) in files of ``name``."""
        leaf = self._ca.issue_cert(*(names or (HOST, "localhost")), **how)
        pair = Pair(
            str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key")
        )
        leaf.private_key_pem.write_to_path(pair.key)
        Path(pair.cert).write_bytes(
            b"".join(one.bytes() for one in leaf.cert_chain_pems)
        )
        return pair

    def trusting(self, shown: Pair | None = None) -> ssl.SSLContext:
        """The context of a client that believes this CA, and may show something."""
        context = ssl.create_default_context(cafile=self.path)
        if shown is not None:
            context.load_cert_chain(shown.cert, shown.key)
        return context
