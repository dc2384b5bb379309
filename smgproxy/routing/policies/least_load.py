"""least_load: the candidate where a request is likely to wait least."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.expected_wait import ExpectedWait
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import TOKEN_BYTES, RoutingRequest


class LeastLoadPolicy(Policy):
    """Compares expected waits; ``most_waiting`` > 0 skips workers with that many."""

    __slots__ = ("_wait", "_most_waiting")
    name = "least_load"
    reads_loads = True

    def __init__(
        self,
        wait: ExpectedWait = ExpectedWait(),
        most_waiting: int = 0,
        draw: Draw | None = None,
    ) -> None:
        super().__init__(draw)
        self._wait = wait
        self._most_waiting = most_waiting

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The lowest expected wait; None when every candidate is at its limit."""
        if self._most_waiting:
            candidates = tuple(filter(self._has_room, candidates))
        if not candidates:
            return None
        tokens = len(request.tokens) // TOKEN_BYTES
        return self._wait.lowest(candidates, tokens, self._draw)

    def _has_room(self, worker: Worker) -> bool:
        """Whether fewer wait there than the limit, as far as anybody knows."""
        lies = worker.backlog
        return not lies.is_reported or lies.waiting + lies.sent < self._most_waiting
