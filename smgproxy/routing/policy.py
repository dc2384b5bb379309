"""What every selection policy is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from smgproxy.fleet.worker import Worker
from smgproxy.routing.request import RoutingRequest

Draw = Callable[[], float]


class Policy:
    """Chooses among workers that are all able to serve.

    One instance serves every model unless a worker's label asks for one of its own,
    so state that must not be shared between models is kept by model. ``branches``
    counts how decisions came about; metrics read it at scrape time. ``draw`` gives
    random numbers within [0, 1).
    """

    __slots__ = ("branches", "_draw")

    name: str = ""
    # Whether a pick is better for knowing the prompt, so that a body without a token
    # hint has to be read before a worker is chosen.
    reads_text: bool = False
    # Whether picks go by what engines report, so that they have to be asked.
    reads_loads: bool = False

    def __init__(self, draw: Draw | None = None) -> None:
        self._draw = draw or random.Random().random
        self.branches: dict[str, int] = {}

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """One of ``candidates``; None when there is none, or none that will do."""
        raise NotImplementedError

    def forget(self, worker: Worker) -> None:
        """The worker left the fleet: keep nothing about it."""

    def forget_model(self, model: str) -> None:
        """Nobody serves the model any more: keep nothing about it."""

    def sweep(self, now: float) -> bool:
        """A slice of upkeep, a few milliseconds at most; whether more is waiting."""
        return False

    def _count(self, branch: str) -> None:
        self.branches[branch] = self.branches.get(branch, 0) + 1


def lowest(candidates: Sequence[Worker], values: Sequence[float], draw: Draw) -> Worker:
    """The candidate with the lowest value; of equal ones, any."""
    low = min(values)
    if values.count(low) == 1:
        return candidates[values.index(low)]
    tied = [one for one, value in zip(candidates, values) if value == low]
    return tied[int(draw() * len(tied))]


def least_busy(candidates: Sequence[Worker], draw: Draw) -> Worker:
    """The candidate with the fewest requests in flight; of equal ones, any."""
    return lowest(candidates, [one.load for one in candidates], draw)
