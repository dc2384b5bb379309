"""What a gateway opens when it starts, or one line that says why it cannot."""

from __future__ import annotations

import socket

from smgproxy.downstream.listener import bind
from smgproxy.server_options import shown
from smgproxy.telemetry.logs import open_outputs
from smgproxy.telemetry.options import TelemetryOptions
from smgproxy.telemetry.output import Outputs


class StartError(Exception):
    """The gateway cannot start; the text is one line that names the remedy."""


def opened(telemetry: TelemetryOptions) -> Outputs:
    """Where log lines go, or the reason why not."""
    try:
        return open_outputs(telemetry)
    except OSError as error:
        why = error.strerror or str(error)
        raise StartError(
            f"--log-dir: cannot write to {shown(error.filename or '')}: {why}; name a "
            "folder that can be written, or leave the flag out for standard error only"
        ) from None


def bound(flag: str, host: str, port: int, reuse_port: bool = False) -> socket.socket:
    """A listening socket's address taken, or the reason why not."""
    try:
        return bind(host, port, reuse_port)
    except OSError as error:
        why = error.strerror or str(error)
        raise StartError(
            f"{flag}: cannot listen on {host}:{port}: {why}; choose another with {flag}"
        ) from None


def address(sock: socket.socket, scheme: str) -> str:
    """Where a listening socket is reached, for people."""
    name = sock.getsockname()
    if not isinstance(name, tuple):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{scheme}://{host}:{name[1]}"
