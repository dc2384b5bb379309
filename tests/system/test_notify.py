"""The lines systemd gets, read from a real datagram socket."""

import contextlib
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from smgproxy.system.notify import Notifier, watchdog_interval_secs


class NotifySocket:
    """What systemd listens on."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def received(self) -> list[str]:
        """Every datagram so far, in order."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self.socket.recv(4096).decode())
        return found


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[NotifySocket]:
    peer = NotifySocket(str(tmp_path / "notify"))
    yield peer
    peer.socket.close()


@pytest.fixture
def notifier(systemd: NotifySocket) -> Iterator[Notifier]:
    line = Notifier(systemd.socket.getsockname())
    yield line
    line.close()


def fill(systemd: NotifySocket) -> int:
    """Send until the peer's queue is full; give how many went in."""
    flood = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    sent = 0
    with flood, contextlib.suppress(BlockingIOError):
        while sent < 100_000:
            flood.sendto(b"X=1\n", systemd.socket.getsockname())
            sent += 1
    return sent


def test_ready_stopping_and_watchdog_are_one_datagram_each(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    notifier.ready()
    notifier.watchdog()
    notifier.stopping()
    assert systemd.received() == ["READY=1\n", "WATCHDOG=1\n", "STOPPING=1\n"]


def test_reloading_carries_the_monotonic_clock(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    before_us = time.monotonic_ns() // 1000
    notifier.reloading()
    [message] = systemd.received()
    match = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)\n", message)
    assert match is not None
    assert before_us <= int(match[1]) <= time.monotonic_ns() // 1000


def test_status_is_one_line_whatever_the_text(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    notifier.status("2 workers\nREADY=1\r\n")
    assert systemd.received() == ["STATUS=2 workers READY=1\n"]


def test_status_is_cut_to_a_line_of_sane_length(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    notifier.status("é" * 5000)
    assert systemd.received() == ["STATUS=" + "é" * 200 + "\n"]


def test_lone_surrogates_in_a_status_do_not_raise(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    notifier.status("bad \udcff name")
    assert systemd.received() == ["STATUS=bad ? name\n"]


def test_abstract_address_is_reached() -> None:
    name = f"smgproxy-test-{os.getpid()}"
    peer = NotifySocket("\0" + name)
    notifier = Notifier("@" + name)
    notifier.ready()
    assert peer.received() == ["READY=1\n"]
    notifier.close()
    peer.socket.close()


def test_address_is_taken_out_of_the_environment(systemd: NotifySocket) -> None:
    environ = {"NOTIFY_SOCKET": systemd.socket.getsockname(), "HOME": "/"}
    notifier = Notifier.from_environ(environ)
    assert notifier.is_connected
    assert environ == {"HOME": "/"}
    notifier.close()


@pytest.mark.parametrize("address", [None, "", "/", "@", "relative", "vsock:2:1234"])
def test_without_a_usable_address_nothing_is_sent(address: str | None) -> None:
    notifier = Notifier(address)
    assert not notifier.is_connected
    notifier.ready()
    notifier.status("unheard")
    notifier.close()


@pytest.mark.parametrize("address", ["/nonexistent/notify", "/" + "x" * 200])
def test_systemd_that_is_away_is_not_the_callers_problem(address: str) -> None:
    notifier = Notifier(address)
    notifier.ready()
    notifier.watchdog()
    notifier.close()


def test_systemd_that_left_is_not_the_callers_problem(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    systemd.socket.close()
    notifier.watchdog()


def test_nothing_is_sent_after_close(systemd: NotifySocket, notifier: Notifier) -> None:
    notifier.close()
    notifier.watchdog()
    assert systemd.received() == []
    assert not notifier.is_connected


def test_full_queue_neither_blocks_nor_loses_ready(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    sent = fill(systemd)
    notifier.ready()
    notifier.watchdog()
    assert systemd.received() == ["X=1\n"] * sent
    notifier.watchdog()
    notifier.watchdog()
    assert systemd.received() == ["READY=1\nWATCHDOG=1\n", "WATCHDOG=1\n"]


def test_stopping_replaces_a_ready_that_never_left(
    systemd: NotifySocket, notifier: Notifier
) -> None:
    fill(systemd)
    notifier.ready()
    systemd.received()
    notifier.stopping()
    notifier.watchdog()
    assert systemd.received() == ["STOPPING=1\n", "WATCHDOG=1\n"]


def test_socket_is_not_inherited(notifier: Notifier) -> None:
    assert notifier._socket is not None
    assert not notifier._socket.get_inheritable()


def test_watchdog_interval_is_half_of_what_systemd_allows() -> None:
    environ = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    assert watchdog_interval_secs(environ) == 15.0
    assert environ == {}


def test_watchdog_pid_may_be_missing() -> None:
    assert watchdog_interval_secs({"WATCHDOG_USEC": "500000"}) == 0.25


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "-5"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "\u0663"},
        {"WATCHDOG_USEC": "9" * 5000},
    ],
)
def test_no_watchdog_is_due(environ: dict[str, str]) -> None:
    assert watchdog_interval_secs(environ) is None
    assert environ == {}
