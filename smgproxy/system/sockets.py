"""Take the listening sockets that systemd opened before the service started.

The protocol of sd_listen_fds(3): descriptors from 3 on, counted and named in
the environment. systemd-socket-activate speaks it too, and so does any parent
that wants to keep a port open across a restart.
"""

import os
import socket
from collections.abc import MutableMapping
from typing import NamedTuple

FIRST_FD = 3
# More than any set-up has; a typing mistake must not make us walk the table.
MAX_FDS = 1024


class PassedSocketError(Exception):
    """What the parent handed over cannot be served; the text says why."""


class PassedSocket(NamedTuple):
    """A listening socket and the name its unit gave it (FileDescriptorName=)."""

    name: str
    sock: socket.socket


def listen_fds(environ: MutableMapping[str, str]) -> list[PassedSocket]:
    """Give the sockets meant for this very process, ready for the event loop.

    Takes the variables out of `environ` whoever they were for, and keeps the
    sockets from being inherited by children. All or nothing: when one socket
    is refused, none stays open.
    """
    pid = environ.pop("LISTEN_PID", "")
    count = environ.pop("LISTEN_FDS", "")
    names = environ.pop("LISTEN_FDNAMES", None)
    # An ancestor's sockets: a shell between systemd and us, for example.
    if pid != str(os.getpid()) or not count:
        return []
    fds = _descriptors(count)
    passed: list[PassedSocket] = []
    try:
        for fd, name in zip(fds, _names(names, len(fds)), strict=True):
            passed.append(PassedSocket(name, _adopt(fd, name)))
    except PassedSocketError:
        for each in passed:
            each.sock.close()
        raise
    return passed


def _descriptors(count: str) -> range:
    if not (count.isascii() and count.isdigit() and len(count) < 9):
        raise PassedSocketError("LISTEN_FDS is not a number")
    if int(count) > MAX_FDS:
        raise PassedSocketError(f"LISTEN_FDS is above {MAX_FDS}")
    return range(FIRST_FD, FIRST_FD + int(count))


def _names(names: str | None, count: int) -> list[str]:
    if names is None:
        return ["unknown"] * count
    listed = names.split(":") if count else []
    if len(listed) != count:
        raise PassedSocketError(
            f"LISTEN_FDNAMES names {len(listed)} sockets, LISTEN_FDS says {count}"
        )
    return listed


def _adopt(fd: int, name: str) -> socket.socket:
    """Make a socket object of the descriptor, if it is one that listens."""
    label = f"passed descriptor {fd} ({name!r})"
    try:
        os.set_inheritable(fd, False)
        passed = socket.socket(fileno=fd)
    except OSError as error:
        raise PassedSocketError(f"{label} is not a socket: {error.strerror}") from error
    fault = _fault(passed)
    if fault:
        passed.close()
        raise PassedSocketError(f"{label} {fault}")
    passed.setblocking(False)
    return passed


def _fault(passed: socket.socket) -> str:
    """Say what keeps us from accepting connections on it; empty when nothing."""
    if passed.family not in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
        return "is neither an internet nor a UNIX socket"
    if passed.type != socket.SOCK_STREAM:
        return "is not a stream socket: use ListenStream="
    if not passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        return "does not listen: use Accept=no"
    return ""
