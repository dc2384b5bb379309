"""random: any candidate, each as likely as the others."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policy import Policy
from smgproxy.routing.request import RoutingRequest


class RandomPolicy(Policy):
    """Picks uniformly."""

    __slots__ = ()
    name = "random"
    reads_text = False

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """One candidate, uniformly."""
        if not candidates:
            return None
        return candidates[int(self._draw() * len(candidates))]
