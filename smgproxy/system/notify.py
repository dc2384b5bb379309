"""Tell systemd how the service is doing, without libsystemd.

One datagram of `NAME=value` lines to the socket that systemd names in
$NOTIFY_SOCKET (sd_notify(3)). Telling must never cost the service anything: a
send does not wait, and a systemd that is away is not the caller's problem.
"""

import os
import socket
import time
from collections.abc import MutableMapping

# A status is one line for `systemctl status`, not a report.
_MAX_STATUS_CHARS = 200


class Notifier:
    """A line to systemd; quiet when the service was not started by it.

    `address` is a path, or `@name` for a socket in the abstract namespace;
    anything else (systemd can also be reached over VSOCK) is taken as none.
    """

    __slots__ = ("_address", "_socket", "_unsent")

    def __init__(self, address: str | None) -> None:
        self._address = _to_sockaddr(address)
        self._socket: socket.socket | None = None
        self._unsent = ""
        if self._address is not None:
            kind = socket.SOCK_DGRAM | socket.SOCK_NONBLOCK
            self._socket = socket.socket(socket.AF_UNIX, kind)

    @classmethod
    def from_environ(cls, environ: MutableMapping[str, str]) -> "Notifier":
        """Take the address out of `environ`, so that no child finds it there."""
        return cls(environ.pop("NOTIFY_SOCKET", None))

    @property
    def is_connected(self) -> bool:
        """True when there is somebody to tell."""
        return self._socket is not None

    def ready(self) -> None:
        """Say that start-up, or a reload, is finished."""
        self._send_state("READY=1\n")

    def reloading(self) -> None:
        """Say that the configuration is being read again; `ready` ends it."""
        # CLOCK_MONOTONIC tells this reload's answer from an earlier one's.
        now_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send_state(f"RELOADING=1\nMONOTONIC_USEC={now_us}\n")

    def stopping(self) -> None:
        """Say that the drain has begun."""
        self._send_state("STOPPING=1\n")

    def watchdog(self) -> None:
        """Say that the service is alive."""
        self._send_line("WATCHDOG=1\n")

    def status(self, text: str) -> None:
        """Show one line in `systemctl status`."""
        # A line break inside would start a second assignment.
        line = " ".join(text.split())[:_MAX_STATUS_CHARS]
        self._send_line(f"STATUS={line}\n")

    def close(self) -> None:
        """Hang up; later messages go nowhere."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send_state(self, message: str) -> None:
        # A lost READY would make systemd kill a healthy service, so a change
        # of state that found systemd's queue full leaves with the next message.
        # Only the latest counts: STOPPING makes an undelivered READY pointless.
        self._unsent = "" if self._send(message) else message

    def _send_line(self, line: str) -> None:
        if self._send(self._unsent + line):
            self._unsent = ""

    def _send(self, message: str) -> bool:
        """Send at once or not at all; False when it did not go."""
        if self._socket is None or self._address is None:
            return True
        try:
            self._socket.sendto(message.encode(errors="replace"), self._address)
        except OSError:
            return False
        return True


def _to_sockaddr(address: str | None) -> str | None:
    """Give the address as the kernel wants it."""
    if address is None or len(address) < 2 or address[0] not in "/@":
        return None
    return "\0" + address[1:] if address[0] == "@" else address


def watchdog_interval_secs(environ: MutableMapping[str, str]) -> float | None:
    """Give the pause between two watchdog messages, or None when none are due.

    Half of what systemd allows (sd_watchdog_enabled(3)), so that one late turn
    of the loop is forgiven. Takes the settings out of `environ`.
    """
    allowed_us = environ.pop("WATCHDOG_USEC", "")
    pid = environ.pop("WATCHDOG_PID", "")
    if pid and pid != str(os.getpid()):
        return None
    # A number of 64 bits has at most 20 digits.
    if not (allowed_us.isascii() and allowed_us.isdigit() and len(allowed_us) <= 20):
        return None
    return int(allowed_us) / 2 / 1_000_000 or None
