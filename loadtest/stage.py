"""Where a run takes place: folders, ports, cores; and what is started there."""

import http.client
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from loadtest.programs import ROUND_ROBIN, Place, Program
from loadtest.toolbox import Toolbox

READY_SECS = 30
Cores = frozenset[int]


class MeasureError(Exception):
    """One start or one round failed; the run goes on without it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The settings that every start and every measurement shares."""

    root: Path
    folder: Path
    first_port: int
    proxy_cores: Cores | None
    tool_cores: Cores | None
    toolbox: Toolbox

    @property
    def worker_port(self) -> int:
        """Where the simulated worker that answers listens."""
        return self.first_port

    @property
    def silent_port(self) -> int:
        """Where the simulated worker that sends heads only listens."""
        return self.first_port + 1

    @property
    def own_worker_port(self) -> int:
        """Where a trial's simulated worker listens."""
        return self.first_port + 2

    def fleet_ports(self, count: int) -> tuple[int, ...]:
        """Where the workers of a trial with many of them listen, 20 at the most."""
        return tuple(range(self.first_port + 30, self.first_port + 30 + count))

    def port_of(self, program: Program) -> int:
        """Where a program listens; its metrics are on the next port."""
        return self.first_port + 10 + 2 * program.rank


@dataclass(frozen=True, slots=True)
class Target:
    """What a load tool is pointed at. Without a pid it is the worker itself."""

    name: str
    port: int
    pid: int | None
    metrics_port: int = 0


def split_cores(is_pinned: bool) -> tuple[Cores | None, Cores | None]:
    """The first core for the program under load, the others for the tools."""
    first, *others = sorted(os.sched_getaffinity(0))
    if not is_pinned or not others:
        return None, None
    return frozenset({first}), frozenset(others)


def pinned(cores: Cores | None) -> Callable[[], None] | None:
    """What a child does before it becomes the program: bind to its cores."""
    return partial(os.sched_setaffinity, 0, cores) if cores else None


@contextmanager
def child(
    stage: Stage, name: str, argv: Sequence[str], cores: Cores | None
) -> Iterator[subprocess.Popen[bytes]]:
    """A child in a group of its own; the whole group is killed at the end."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    with (stage.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=stage.root,
            env=environment,
            start_new_session=True,
            preexec_fn=pinned(cores),
        )
    try:
        yield process
    finally:
        # Nothing is left to measure, so nobody waits for a graceful end.
        with suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def wait_until_ready(
    process: subprocess.Popen[bytes], port: int, path: str, log: Path
) -> None:
    """Until it answers with 200; MeasureError when it ends before, or never does."""
    deadline = time.monotonic() + READY_SECS
    while not _answers(port, path):
        if process.poll() is not None:
            text = f"ended with code {process.returncode}: {_last_line(log)}"
            raise MeasureError(text[:300])
        if time.monotonic() > deadline:
            raise MeasureError(f"did not answer GET {path} with 200 in {READY_SECS} s")
        time.sleep(0.05)


@contextmanager
def running_worker(stage: Stage, is_silent: bool) -> Iterator[None]:
    """The simulated worker, ready to answer."""
    name = "silent-worker" if is_silent else "worker"
    port = stage.silent_port if is_silent else stage.worker_port
    with _running_upstream(stage, name, port, ["--silent"] if is_silent else []):
        yield


@contextmanager
def running_own_worker(stage: Stage, *flags: str) -> Iterator[int]:
    """A simulated worker with flags of its own, ready to answer; its port."""
    port = stage.own_worker_port
    with _running_upstream(stage, "own-worker", port, flags):
        yield port


@contextmanager
def running_python_worker(stage: Stage, tool: str, *flags: str) -> Iterator[int]:
    """A worker that is a tool of its own, ready to answer; its port."""
    port = stage.own_worker_port
    argv = [*stage.toolbox.python_tool(tool), str(port), *flags]
    with _running_worker(stage, "own-worker", port, argv):
        yield port


@contextmanager
def _running_upstream(
    stage: Stage, name: str, port: int, flags: Sequence[str]
) -> Iterator[None]:
    with _running_worker(
        stage, name, port, [*stage.toolbox.upstream, str(port), *flags]
    ):
        yield


@contextmanager
def _running_worker(
    stage: Stage, name: str, port: int, argv: Sequence[str]
) -> Iterator[None]:
    with child(stage, name, argv, stage.tool_cores) as process:
        wait_until_ready(process, port, "/health", stage.folder / f"{name}.log")
        yield


@contextmanager
def running(
    stage: Stage,
    program: Program,
    worker_port: int,
    flags: Sequence[str] = (),
    policy: str = ROUND_ROBIN,
) -> Iterator[Target]:
    """A program, ready, in front of the worker; MeasureError if it is not."""
    if program.command is None:
        yield Target(program.name, worker_port, None)
        return
    port = stage.port_of(program)
    place = Place(port, port + 1, (worker_port,), stage.folder, policy)
    with running_at(stage, program, place, flags) as target:
        yield target


@contextmanager
def running_at(
    stage: Stage, program: Program, place: Place, flags: Sequence[str] = ()
) -> Iterator[Target]:
    """The same at a place of the caller's; `direct` is nothing that runs."""
    assert program.command is not None
    argv = [*program.command(place), *flags]
    with child(stage, program.name, argv, stage.proxy_cores) as process:
        log = stage.folder / f"{program.name}.log"
        wait_until_ready(process, place.port, program.ready_path, log)
        yield Target(program.name, place.port, process.pid, place.metrics_port)
