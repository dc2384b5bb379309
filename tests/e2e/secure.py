"""What the tests of TLS share."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator

from tests.e2e.stage import Stage, eventually
from tests.fakes.certificates import HOST


async def no_connection_left(stage: Stage) -> None:
    """Wait until every client's connection is gone, or its handshake."""
    await eventually(lambda: not stage.gateway.listener.open_connections)


@contextlib.contextmanager
def plain_client(
    stage: Stage, context: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> Iterator[ssl.SSLSocket]:
    """A client without an event loop, which sends alerts and takes what is left
    behind a FIN; for a thread."""
    with (
        socket.create_connection((HOST, stage.port), timeout=10) as sock,
        context.wrap_socket(
            *(sock, False, True, False),  # raises when cut without a close_notify
            server_hostname=HOST,
            session=session,
        ) as wire,
    ):
        yield wire
