"""random: any candidate, each as likely as the others."""

from __future__ import annotations

import random

from smgproxy.fleet.worker import Worker


class RandomPolicy:
    """Picks uniformly."""

    __slots__ = ("_random",)
    name = "random"
    reads_text = False

    def __init__(self, source: random.Random | None = None) -> None:
        self._random = source or random.Random()

    def pick(self, candidates: tuple[Worker, ...]) -> Worker:
        """One candidate, uniformly."""
        return candidates[int(self._random.random() * len(candidates))]
