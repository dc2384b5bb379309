"""round_robin: each candidate in turn."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker


class RoundRobinPolicy:
    """Takes the candidates in order of registration, over and over."""

    __slots__ = ("_turn",)
    name = "round_robin"
    reads_text = False

    def __init__(self) -> None:
        self._turn = 0

    def pick(self, candidates: tuple[Worker, ...]) -> Worker:
        """The next candidate."""
        turn = self._turn % len(candidates)
        self._turn = turn + 1
        return candidates[turn]
