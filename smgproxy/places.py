"""Where the gateway listens and writes: what the system may refuse at the start."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from smgproxy.downstream.listener import bind
from smgproxy.server_options import shown
from smgproxy.settings import Settings
from smgproxy.system.sockets import PassedSocket
from smgproxy.telemetry.logs import open_outputs
from smgproxy.telemetry.options import TelemetryOptions
from smgproxy.telemetry.output import Outputs

# The name of the socket that systemd may pass for metrics; any other is for clients.
METRICS_SOCKET = "metrics"


class StartError(Exception):
    """The gateway cannot start; the text is one line that names the remedy."""


def sockets(
    settings: Settings, passed: Sequence[PassedSocket]
) -> tuple[list[socket.socket], socket.socket]:
    """Client and metrics sockets: those systemd passed, else bound here."""
    clients = [one.sock for one in passed if one.name != METRICS_SOCKET]
    metrics = [one.sock for one in passed if one.name == METRICS_SOCKET]
    server, telemetry = settings.server, settings.telemetry
    if not clients:
        clients = [bound("--port", server.host, server.port, server.reuse_port)]
    if not metrics:
        host = telemetry.prometheus_host or ("::" if ":" in server.host else "0.0.0.0")
        metrics = [bound("--prometheus-port", host, telemetry.prometheus_port)]
    return clients, metrics[0]


def log_outputs(telemetry: TelemetryOptions) -> Outputs:
    """Where log lines go, or the reason why not. Raises StartError."""
    try:
        return open_outputs(telemetry)
    except OSError as error:
        why = error.strerror or str(error)
        raise StartError(
            f"--log-dir: cannot write to {shown(error.filename or '')}: {why}; name a "
            "folder that can be written, or leave the flag out for standard error only"
        ) from None


def bound(flag: str, host: str, port: int, reuse_port: bool = False) -> socket.socket:
    """An address taken for a flag, or the reason why not. Raises StartError."""
    try:
        return bind(host, port, reuse_port)
    except OSError as error:
        why = error.strerror or str(error)
        raise StartError(
            f"{flag}: cannot listen on {host}:{port}: {why}; choose another with {flag}"
        ) from None


def address_of(sock: socket.socket, scheme: str) -> str:
    """The URL of a listening socket."""
    name = sock.getsockname()
    if not isinstance(name, tuple):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"{scheme}://{host}:{name[1]}"
