"""A gateway process as a service: what systemd hears, and what it hands over."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import SIMULATED
from tests.e2e.process import ROOT, RunningGateway, eventually


class NotifySocket:
    """What systemd listens on, and every line it got."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        """All assignments so far, in order."""
        try:
            while True:
                self._lines += self._socket.recv(4096).decode().splitlines()
        except BlockingIOError:
            return self._lines

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[NotifySocket]:
    peer = NotifySocket(str(tmp_path / "notify"))
    yield peer
    peer.close()


def test_systemd_hears_of_start_life_and_stop(
    systemd: NotifySocket, tmp_path: Path
) -> None:
    environ = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "200000"}
    with RunningGateway(tmp_path, *SIMULATED, environ=environ) as running:
        eventually(lambda: "READY=1" in systemd.lines, 30.0)
        # Ready means that it listens, not that an engine is up.
        assert running.ask("GET", "/liveness").status_code == 200
        eventually(lambda: systemd.lines.count("WATCHDOG=1") >= 3)
        running.wait_until()
        assert running.stop() == 0
        order = [line for line in systemd.lines if line != "WATCHDOG=1"]
        assert order == ["READY=1", "STATUS=serving", "STOPPING=1", "STATUS=draining"]


def test_systemd_is_told_of_the_drain_while_it_lasts(
    systemd: NotifySocket, tmp_path: Path
) -> None:
    environ = {"NOTIFY_SOCKET": systemd.address, "WATCHDOG_USEC": "200000"}
    with RunningGateway(tmp_path, *SIMULATED, environ=environ) as running:
        running.wait_until()
        with running.stream(ignore_eos=True, max_tokens=8000) as pieces:
            next(pieces)
            running.signal(signal.SIGTERM)
            eventually(lambda: "STOPPING=1" in systemd.lines)
            beats = systemd.lines.count("WATCHDOG=1")
            eventually(lambda: systemd.lines.count("WATCHDOG=1") >= beats + 2)
            running.signal(signal.SIGTERM)
            b"".join(pieces)
        assert running.wait() == 0


def test_a_socket_of_systemd_takes_the_place_of_the_port(tmp_path: Path) -> None:
    activate = shutil.which("systemd-socket-activate")
    if activate is None:
        pytest.skip("systemd-socket-activate is not installed")
    wrapper = (activate, "-E", f"PYTHONPATH={ROOT}", "-l", "127.0.0.1:{port}", "--")
    # It would be a mistake to bind this one: systemd has it already.
    with RunningGateway(tmp_path, *SIMULATED, wrapper=wrapper) as running:
        running.wait_until()
        assert running.chat().status_code == 200
        assert f"API      {running.url}" in running.out
        assert running.stop() == 0
        assert "Traceback" not in running.err
