"""What the circuit breakers of the workers count (contract, layer 3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, Protocol

from smgproxy.telemetry.families import Family, counter, gauge


class BreakerLike(Protocol):
    """A worker's breaker, as far as it is counted."""

    failures: int
    successes: int
    failure_streak: int
    success_streak: int
    readmissions: int

    @property
    def state(self) -> IntEnum:
        """0 closed, 1 open, 2 half-open."""

    @property
    def transitions(self) -> Mapping[Any, int]:
        """How often it went from one state to another, by the two."""


class GuardedLike(Protocol):
    """A worker, as far as its breaker is counted."""

    url: str

    @property
    def breaker(self) -> BreakerLike:
        """Its breaker."""


def breaker_families(workers: Sequence[GuardedLike]) -> Iterator[Family]:
    """The families of every worker's breaker."""
    guards = [((worker.url,), worker.breaker) for worker in workers]
    yield gauge(
        "smg_worker_cb_state",
        "0 closed, 1 open, 2 half-open",
        ["worker"],
        [(key, int(one.state)) for key, one in guards],
    )
    yield counter(
        "smg_worker_cb_transitions",
        "Changes of state",
        ["worker", "from", "to"],
        [
            ((*key, before.name.lower(), after.name.lower()), count)
            for key, one in guards
            for (before, after), count in one.transitions.items()
        ],
    )
    yield counter(
        "smg_worker_cb_outcomes",
        "Outcomes of requests that a breaker counts",
        ["worker", "outcome"],
        [
            ((*key, outcome), count)
            for key, one in guards
            for outcome, count in (
                ("success", one.successes),
                ("failure", one.failures),
            )
        ],
    )
    yield gauge(
        "smg_worker_cb_consecutive_failures",
        "Failures in a row, up to now",
        ["worker"],
        [(key, one.failure_streak) for key, one in guards],
    )
    yield gauge(
        "smg_worker_cb_consecutive_successes",
        "Successes in a row, up to now",
        ["worker"],
        [(key, one.success_streak) for key, one in guards],
    )
    yield counter(
        "smg_worker_cb_health_readmissions",
        "Open breakers that went half-open because the probes succeed again",
        ["worker"],
        [(key, one.readmissions) for key, one in guards],
    )
