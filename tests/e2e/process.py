"""A gateway as a user starts it: a process of its own, seen from outside only."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import httpx

ROOT = Path(__file__).resolve().parents[2]
HOST = "127.0.0.1"
MODEL = "sim-model"
START_SECS = 30.0
# The gateway is through with its own waiting long before; the machine may be busy.
EXIT_SECS = 15.0
# What a test may find set by whoever runs it, and would change the gateway.
_NOT_INHERITED = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "RUST_LOG")


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on, all different."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in sockets:
            sock.bind((HOST, 0))
        return [int(sock.getsockname()[1]) for sock in sockets]


def eventually(is_true: Callable[[], object], secs: float = 10.0) -> None:
    """Wait for a fact, until a deadline."""
    deadline = time.monotonic() + secs
    while not is_true():
        assert time.monotonic() < deadline, f"not within {secs:g} s"
        time.sleep(0.01)


def is_refused(port: int) -> bool:
    """Whether nobody accepts connections on a port."""
    with socket.socket() as sock:
        return sock.connect_ex((HOST, port)) != 0


class RunningGateway:
    """One gateway process; it stops, by force if need be, with its ``with`` block."""

    def __init__(
        self,
        folder: Path,
        *flags: str,
        wrapper: Sequence[str] = (),
        environ: dict[str, str] | None = None,
    ) -> None:
        """Start it on free ports with ``flags`` behind those it needs anyway.

        ``wrapper`` is a command that starts it; ``{port}`` in there is the port.
        """
        self.port, self.metrics_port = free_ports(2)
        self.url = f"http://{HOST}:{self.port}"
        self.metrics_url = f"http://{HOST}:{self.metrics_port}/metrics"
        self._folder = folder
        self._client = httpx.Client(
            trust_env=False,
            verify=False,
            timeout=20,
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        command = [word.format(port=self.port) for word in wrapper]
        command += [sys.executable, "-m", "smgproxy", "launch", "--host", HOST]
        command += ["--port", str(self.port), "--prometheus-host", HOST]
        command += ["--prometheus-port", str(self.metrics_port), *flags]
        inherited = {k: v for k, v in os.environ.items() if k not in _NOT_INHERITED}
        with self._writing("out") as out, self._writing("err") as err:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=ROOT,
                env={**inherited, **(environ or {})},
            )

    def __enter__(self) -> RunningGateway:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait(EXIT_SECS)

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return (self._folder / "out").read_text()

    @property
    def err(self) -> str:
        """Its standard error so far."""
        return (self._folder / "err").read_text()

    def wait_until(self, path: str = "/readiness", secs: float = START_SECS) -> None:
        """Wait until GET ``path`` answers 200."""
        deadline = time.monotonic() + secs
        while self.child.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(httpx.TransportError):
                if self.ask("GET", path).status_code == 200:
                    return
            time.sleep(0.02)
        raise AssertionError(f"{path} is not 200; it said:\n{self.out}{self.err}")

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """One request over a connection of its own, and its whole answer."""
        url = path if "://" in path else self.url + path
        return self._client.request(method, url, json=body)

    def get(self, path: str) -> Any:
        """What a GET answers, which must be JSON with status 200."""
        response = self.ask("GET", path)
        assert response.status_code == 200, response.text
        return response.json()

    def chat(self, text: str = "hi", **fields: object) -> httpx.Response:
        """A chat request and its answer."""
        return self.ask("POST", "/v1/chat/completions", chat_body(text, **fields))

    @contextlib.contextmanager
    def stream(self, **fields: object) -> Iterator[Iterator[bytes]]:
        """A chat stream: the pieces of its body, the first one already generated."""
        body = chat_body("hi", stream=True, **fields)
        url = f"{self.url}/v1/chat/completions"
        with self._client.stream("POST", url, json=body) as response:
            assert response.status_code == 200
            yield response.iter_raw()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.child.send_signal(number)

    def wait(self, secs: float = EXIT_SECS) -> int:
        """Its exit status, once it has ended."""
        return self.child.wait(secs)

    def stop(self) -> int:
        """Stop it as systemd would; its exit status."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def _writing(self, name: str) -> IO[bytes]:
        return (self._folder / name).open("wb")


def chat_body(text: str, **fields: object) -> dict[str, object]:
    """The body of a chat request."""
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "messages": messages, **fields}


class Engines(NamedTuple):
    """Simulated workers that a gateway can register."""

    urls: list[str]
    child: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Let them die without a word."""
        self.child.kill()


@contextlib.contextmanager
def simulated_workers(port: int = 0, count: int = 1) -> Iterator[Engines]:
    """Simulated workers in a process of their own, at 50 tokens a second."""
    command = [sys.executable, "-m", "smgproxy.simulated", f"--count={count}"]
    command += [f"--port={port}", "--ttft-ms=5", "--tokens-per-second=50"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as child:
        try:
            assert child.stdout is not None
            yield Engines(json.loads(child.stdout.readline())["urls"], child)
        finally:
            child.terminate()
            child.wait(EXIT_SECS)
