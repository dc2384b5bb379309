"""Workers that are killed, stopped and answer anything: what clients are owed."""

import http.client
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from loadtest.loadtool import Figures, LoadTool
from loadtest.programs import Place, Program
from loadtest.stage import (
    MeasureError,
    Stage,
    Target,
    child,
    running_at,
    wait_until_ready,
)
from loadtest.stats import Metric, Pick
from loadtest.tools.contract import CONTRACT, Answer
from loadtest.trials.admission import held
from loadtest.trials.trial import OURS_ALONE, get, pid_of, tool, worker_state

SPEAK_HTTP2 = (1,)
WORKERS, CLIENTS, LOAD_SECS = 3, 200, 60
ATTEMPTS, TIMEOUT_SECS = 3, 2
# All attempts' time, each late by a sweep of the pool; the rest is a busy machine's.
DEADLINE_SECS = ATTEMPTS * (TIMEOUT_SECS + 0.25) + 1.25
FLAGS = (
    "--upstream-http2",
    *("--request-timeout-secs", str(TIMEOUT_SECS)),
    *("--retry-max-retries", str(ATTEMPTS)),
    # So that all workers are left alone now and then, and not most of the time.
    *("--cb-failure-threshold", "40"),
    *("--cb-success-threshold", "1"),
    *("--cb-timeout-duration-secs", "1"),
    *("--health-check-interval-secs", "1"),
    *("--health-check-timeout-secs", "1"),
    *("--health-failure-threshold", "2"),
    *("--health-success-threshold", "1"),
    *("--load-monitor-interval", "1"),
)
UP_SECS, DOWN_SECS = (1.0, 5.0), (0.1, 2.0)
OVER_HTTP2 = re.compile(r"^smg_worker_http2{.*} 1", re.M)
SETTLE_SECS, POOL_SECS = 5.0, 5.0
REQUESTS_A_LOOK, REQUESTS_AFTERWARDS = 10, 300


@dataclass(slots=True)
class Victim:
    """One worker, a process that is killed, stopped, and started again."""

    stage: Stage
    number: int
    port: int
    due: float = 0.0
    _is_stopped: bool = False
    _life: ExitStack = field(default_factory=ExitStack)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it listens a moment later."""
        argv = tool(self.stage, "unruly", self.port)
        argv += ["--http2"] if self.number in SPEAK_HTTP2 else []
        name = f"unruly-{self.number}"
        self._process = self._life.enter_context(
            child(self.stage, name, argv, self.stage.tool_cores)
        )

    def wait_until_ready(self) -> None:
        """Until it answers."""
        assert self._process is not None
        log = self.stage.folder / f"unruly-{self.number}.log"
        wait_until_ready(self._process, self.port, "/health", log)

    @property
    def is_up(self) -> bool:
        """Whether it runs."""
        return self._process is not None and not self._is_stopped

    def kill(self) -> None:
        """SIGKILL: its connections are reset, and no new ones accepted."""
        self._life.close()
        self._process = None
        self._is_stopped = False

    def stop(self) -> None:
        """SIGSTOP: connections are accepted, and nothing else happens."""
        self._signal(signal.SIGSTOP)
        self._is_stopped = True

    def revive(self) -> None:
        """Up again, whatever it was."""
        if self._process is None:
            self.start()
        elif self._is_stopped:
            self._signal(signal.SIGCONT)
        self._is_stopped = False

    def suffer(self, dice: random.Random) -> None:
        """Go down if it is up, and the other way round; ``due`` is when again."""
        if not self.is_up:
            self.revive()
            self.due += dice.uniform(*UP_SECS)
            return
        fall = self.kill if dice.random() < 0.5 else self.stop
        fall()
        self.due += dice.uniform(*DOWN_SECS)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)


@contextmanager
def victims(stage: Stage) -> Iterator[Sequence[Victim]]:
    """The workers, all up at first."""
    ports = enumerate(stage.fleet_ports(WORKERS))
    found = [Victim(stage, number, port) for number, port in ports]
    try:
        for victim in found:
            victim.start()
        for victim in found:
            victim.wait_until_ready()
        yield found
    finally:
        for victim in found:
            victim.kill()


def torment(found: Sequence[Victim], seconds: float) -> int:
    """Take them down and up for some time, up at last; how often in all."""
    dice = random.Random(1)
    now = time.monotonic()
    end = now + seconds
    for victim in found:
        victim.due = now + dice.uniform(*UP_SECS)
    blows = 0
    while (first := min(found, key=lambda victim: victim.due)).due < end:
        time.sleep(max(0.0, first.due - time.monotonic()))
        first.suffer(dice)
        blows += 1
    for victim in found:
        victim.revive()
        victim.wait_until_ready()
    return blows


def good_answers(target: Target, count: int) -> int:
    """Ask so many new things, one by one; how many are answered with 200."""
    good = 0
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
    headers = {"Content-Type": "application/json"}
    try:
        for _ in range(count):
            body = Answer(random.getrandbits(48), is_stream=False).request(0)
            connection.request("POST", "/v1/chat/completions", body, headers)
            answer = connection.getresponse()
            answer.read()
            good += answer.status == 200
    except (OSError, http.client.HTTPException) as error:
        raise MeasureError(f"afterwards: {error}") from error
    finally:
        connection.close()
    return good


@dataclass(frozen=True, slots=True)
class Chaos:
    """Everything that workers do wrong, at once."""

    name: str = "chaos"
    title: str = (
        f"{CLIENTS} clients for {LOAD_SECS} s, HTTP/1.1 and h2c, streamed and "
        f"buffered, some giving up; {WORKERS} workers, one of HTTP/2, are killed, "
        "stopped and revived, and answer with 200, 429, 500, 503, late, half, not at "
        f"all, or no HTTP. Requests have {ATTEMPTS} attempts of {TIMEOUT_SECS} s."
    )
    programs: tuple[str, ...] = OURS_ALONE
    rounds: int = 1
    metrics: tuple[Metric, ...] = (
        Metric("chaos.blows", "Workers killed, stopped, revived"),
        Metric("chaos.asked", "Requests"),
        Metric("chaos.given_up", "Given up by the client"),
        *(Metric(f"chaos.{label}", f"Answers {label}") for label in CONTRACT),
        Metric("chaos.strays", "Other answers, or broken", 0, Pick.MOST),
        Metric("chaos.unanswered", "Requests without an answer", 0, Pick.MOST),
        Metric("chaos.slowest", "Slowest answer, s", 2, Pick.MOST),
        Metric("chaos.held", "In flight at the end, gateway", 0, Pick.MOST),
        Metric("chaos.left", "In flight at the end, workers", 0, Pick.MOST),
        Metric("chaos.files", "Descriptors left open", 0, Pick.MOST),
        Metric("chaos.faults", "Exceptions in the gateway's log", 0, Pick.MOST),
        Metric("chaos.used", "Workers used again", 0, Pick.LEAST),
        Metric("chaos.back", "Until then, s", 1, Pick.MOST),
        Metric("chaos.failed", "Afterwards not 200", 0, Pick.MOST),
    )

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round."""
        ports = stage.fleet_ports(WORKERS)
        port = stage.port_of(program)
        place = Place(port, port + 1, ports, stage.folder, "cache_aware")
        with (
            victims(stage) as workers,
            running_at(stage, program, place, FLAGS) as target,
        ):
            files = _open_files(target)
            argv = tool(stage, "chaos", target.port, "--clients", str(CLIENTS))
            argv += ["--seconds", str(LOAD_SECS), "--deadline", str(DEADLINE_SECS)]
            with LoadTool(stage, argv) as clients:
                blows = torment(workers, LOAD_SECS)
                said = clients.wait_for("end", 3 * DEADLINE_SECS)
            found = _figures(said) | _afterwards(target, ports)
            # Idle connections to workers are closed after three seconds.
            time.sleep(POOL_SECS)
            found["chaos.files"] = max(0, _open_files(target) - files)
        log = (stage.folder / f"{program.name}.log").read_text(errors="replace")
        return found | {"chaos.blows": blows, "chaos.faults": log.count("Traceback")}


def _open_files(target: Target) -> int:
    """How many descriptors the gateway has open."""
    return len(os.listdir(f"/proc/{pid_of(target)}/fd"))


def _figures(said: Figures) -> Figures:
    """The clients' figures; an answer that nobody got is one, too."""
    nothing = dict.fromkeys(CONTRACT, 0.0)
    return {f"chaos.{name}": value for name, value in (nothing | said).items()}


def _afterwards(target: Target, ports: Sequence[int]) -> Figures:
    """All workers are well: what is still in flight, and who is used."""
    for port in ports:
        get(port, "/sim/calm")

    def left() -> float:
        return sum(worker_state(port)["running"] for port in ports)

    def kept() -> float:
        return held(get(target.metrics_port, "/metrics").decode())

    def used() -> int:
        return sum(worker_state(port)["answered"] > 0 for port in ports)

    def all_are_used() -> bool:
        good_answers(target, REQUESTS_A_LOOK)
        return used() == len(ports)

    _wait_until(lambda: not left() and not kept())
    page = get(target.metrics_port, "/metrics").decode()
    if len(OVER_HTTP2.findall(page)) != len(SPEAK_HTTP2):
        raise MeasureError("not all who speak HTTP/2 were spoken to so")
    figures = {"chaos.held": kept(), "chaos.left": left()}
    began = time.monotonic()
    _wait_until(all_are_used)
    figures |= {"chaos.used": used(), "chaos.back": time.monotonic() - began}
    good = good_answers(target, REQUESTS_AFTERWARDS)
    return figures | {"chaos.failed": REQUESTS_AFTERWARDS - good}


def _wait_until(is_so: Callable[[], bool]) -> None:
    """A few seconds at the most."""
    end = time.monotonic() + SETTLE_SECS
    while not is_so() and time.monotonic() < end:
        time.sleep(0.1)
