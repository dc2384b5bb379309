"""A gateway in a process of its own, started as a user starts it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEADLINE_SECS = 20.0


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def wait_for(port: int, path: str, status: int = 200) -> None:
    """Poll a route until it answers so, or the deadline passes."""
    deadline = time.monotonic() + DEADLINE_SECS
    while True:
        try:
            url = f"http://127.0.0.1:{port}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            found = error.code
            error.close()
        except OSError:
            found = 0
        if found == status:
            return
        assert time.monotonic() < deadline, f"{path} on {port} answers {found}"
        time.sleep(0.05)


class Running:
    """A gateway process."""

    def __init__(self, *flags: str, prefix: tuple[str, ...] = (), **env: str) -> None:
        self.port, self.metrics_port = free_port(), free_port()
        command = [
            *(*prefix, sys.executable, "-m", "smgproxy", "launch"),
            *("--host", "127.0.0.1", "--prometheus-host", "127.0.0.1"),
            *("--port", str(self.port), "--prometheus-port", str(self.metrics_port)),
            *flags,
        ]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, **env},
        )

    @property
    def url(self) -> str:
        """Where clients go."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str, str]:
        """Signal it and wait: exit status, stdout, stderr."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.finish()

    def finish(self) -> tuple[int, str, str]:
        """Wait for its end."""
        out, err = self.process.communicate(timeout=DEADLINE_SECS)
        return self.process.returncode, out, err


@contextmanager
def gateway(*flags: str) -> Iterator[Running]:
    """A gateway that is ready, and stops with exit status 0."""
    running = Running(*flags)
    try:
        wait_for(running.port, "/readiness")
        yield running
        status, _, err = running.stop()
        assert status == 0, err
        assert "Traceback" not in err
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.finish()


SIMULATED = (
    *("--simulated-workers", "2", "--simulated-ttft-ms", "5"),
    *("--simulated-tokens-per-second", "500"),
)
