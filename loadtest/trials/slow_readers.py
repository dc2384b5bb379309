"""Clients that ask for a lot and read nothing, beside others that read as it comes."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

from loadtest import procfs
from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Program
from loadtest.stage import (
    MeasureError,
    Stage,
    Target,
    running,
    running_own_worker,
)
from loadtest.stats import Metric, Pick
from loadtest.trials.trial import OURS_ALONE, warm_up, worker_state

READERS = 64
BIG_MIB = 500
LIVE = 50
LIVE_SECS = 5.0
TICK_MS = 20.0
BLOCKED_SECS = 10
SETTLE_SECS = 1.0
_BODY = b'{"text":"on and on","stream":true}'


@contextmanager
def unread(port: int) -> Iterator[None]:
    """The readers' connections, each with its request sent and nothing read."""
    head = (
        b"POST /generate HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )
    with ExitStack() as stack:
        for _ in range(READERS):
            reader = socket.create_connection(("127.0.0.1", port), 10)
            stack.enter_context(closing(reader))
            reader.sendall(head % (port, len(_BODY)) + _BODY)
        yield


def _rss_mib(target: Target) -> float:
    return procfs.memory_kib(target.pid, "VmRSS") / 1024 if target.pid else 0.0


@dataclass(frozen=True, slots=True)
class SlowReaders:
    """Streams that nobody reads must cost little, and cost the others nothing."""

    name: str = "slow-readers"
    title: str = (
        f"{READERS} clients read nothing while their worker has {BIG_MIB} MiB each; "
        f"{LIVE} streams, an event a tick of {TICK_MS:.0f} ms, alone and beside."
    )
    # Without a proxy, to tell what is the worker's and the clients' own.
    programs: tuple[str, ...] = ("direct", *OURS_ALONE)
    rounds: int = 1
    metrics: tuple[Metric, ...] = (
        Metric("slow-readers.rss", "RSS growth per unread stream, MiB", 2, Pick.MOST),
        Metric("slow-readers.blocked", "Worker's sends that block", 0, Pick.LEAST),
        Metric("slow-readers.sent", "Sent by the worker per stream, MiB", 1, Pick.MOST),
        Metric("slow-readers.alone", "Gap beyond the tick, alone, ms", 1, Pick.MOST),
        Metric("slow-readers.gap", "Gap beyond the tick, beside, ms", 1, Pick.MOST),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round: the live streams alone, then again while others are unread."""
        with (
            running_own_worker(stage, "--big-mib", str(BIG_MIB)) as worker_port,
            running(stage, program, worker_port) as target,
        ):
            warm_up(target)
            alone = self._longest_gap(stage, target, None)
            before = _rss_mib(target)
            with ExitStack() as readers:
                beside = self._longest_gap(stage, target, readers)
                state = self._wait_until_blocked(worker_port)
                grown = _rss_mib(target) - before
        figures = {
            "slow-readers.blocked": state["blocked"],
            "slow-readers.sent": state["big_sent"] / READERS / 2**20,
            "slow-readers.alone": max(0.0, alone - TICK_MS),
            "slow-readers.gap": max(0.0, beside - TICK_MS),
        }
        return figures | ({"slow-readers.rss": grown / READERS} if target.pid else {})

    def _longest_gap(
        self, stage: Stage, target: Target, readers: ExitStack | None
    ) -> float:
        """Run the live streams, the readers coming in their middle if there are any."""
        argv = [*stage.toolbox.streams, str(target.port), "--conns", str(LIVE)]
        argv += ["--seconds", str(LIVE_SECS), "--warmup", "1"]
        with LoadTool(stage, argv) as tool:
            tool.wait_for("begin", 20)
            if readers is not None:
                readers.enter_context(unread(target.port))
            said = tool.wait_for("end", LIVE_SECS + 10)
        if said["errors"] or said["lost"]:
            raise MeasureError(f"{said['errors']:.0f} live streams broke")
        return said["max_gap_ms"]

    def _wait_until_blocked(self, worker_port: int) -> Figures:
        """The worker's state when nothing moves any more."""
        last = time.monotonic() + BLOCKED_SECS
        state = worker_state(worker_port)
        while state["blocked"] < READERS and time.monotonic() < last:
            time.sleep(SETTLE_SECS)
            state = worker_state(worker_port)
        return state
