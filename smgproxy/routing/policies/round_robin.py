"""round_robin: each candidate in turn."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import RoutingRequest

# Sets of candidates whose turn is remembered; the oldest is dropped for a new one.
MAX_SETS = 4096


class RoundRobinPolicy(Policy):
    """Takes the candidates in order of registration, over and over.

    Each set of candidates has a turn of its own: with one turn for all of them, a
    worker that leaves and returns would shift the others' shares.
    """

    __slots__ = ("_turns",)
    name = "round_robin"
    reads_text = False

    def __init__(self, draw: Draw | None = None) -> None:
        super().__init__(draw)
        self._turns: dict[tuple[Worker, ...], int] = {}

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The next candidate of this set."""
        if not candidates:
            return None
        turns = self._turns
        turn = turns.get(candidates)
        if turn is None:
            turn = 0
            if len(turns) >= MAX_SETS:
                del turns[next(iter(turns))]
        turns[candidates] = turn + 1 if turn + 1 < len(candidates) else 0
        return candidates[turn]

    def forget(self, worker: Worker) -> None:
        """Drop the sets that the worker was part of."""
        for candidates in [one for one in self._turns if worker in one]:
            del self._turns[candidates]
