"""What a trial is, and what trials have in common."""

import http.client
import json
from typing import Protocol

from loadtest.loadtool import Figures
from loadtest.programs import Program
from loadtest.stage import MeasureError, Stage, Target
from loadtest.stats import Metric

OURS_ALONE = ("ours",)
WARM_UP_BODY = b'{"model":"sim","messages":[{"role":"user","content":"hi"}]}'


class Skipped(Exception):
    """A trial cannot take place here; says what is missing."""


class Trial(Protocol):
    """A load with a setting of its own, for the few programs that it is about.

    It starts its own worker and, for each round, its own program. What it finds is a
    section of RESULTS.md for itself.
    """

    @property
    def name(self) -> str:
        """A short name for --scenarios; its metrics' keys begin with it and a dot."""

    @property
    def title(self) -> str:
        """One sentence for the report: what is done."""

    @property
    def programs(self) -> tuple[str, ...]:
        """The programs that it is about."""

    @property
    def rounds(self) -> int:
        """How often it is measured."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The lines of its table."""

    def measure(self, stage: Stage, program: Program) -> Figures:
        """One round. Raises MeasureError and Skipped."""


def get(port: int, path: str) -> bytes:
    """The body of a GET that is answered with 200; else MeasureError."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise MeasureError(f"GET {path}: {error}") from error
    finally:
        connection.close()
    if answer.status != 200:
        raise MeasureError(f"GET {path}: {answer.status}")
    return body


def worker_state(port: int) -> Figures:
    """What the simulated worker says of itself."""
    state: Figures = json.loads(get(port, "/sim/state"))
    return state


def warm_up(target: Target, times: int = 50) -> None:
    """A few small requests, so that code loaded on first use is in memory."""
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=10)
    headers = {"Content-Type": "application/json"}
    try:
        for _ in range(times):
            path = "/v1/chat/completions"
            connection.request("POST", path, WARM_UP_BODY, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise MeasureError(f"warm-up: {answer.status}")
    except (OSError, http.client.HTTPException) as error:
        raise MeasureError(f"warm-up: {error}") from error
    finally:
        connection.close()


def tool(stage: Stage, name: str, port: int, *arguments: str) -> list[str]:
    """The command line of a load tool that there is in Python only."""
    return [*stage.toolbox.python_tool(name), str(port), *arguments]


def pid_of(target: Target) -> int:
    """The process that is looked at; trials are not about the worker alone."""
    assert target.pid is not None
    return target.pid
