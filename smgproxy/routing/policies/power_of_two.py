"""power_of_two: the better of two candidates drawn at random."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.expected_wait import ExpectedWait
from smgproxy.routing.policy import Draw, Policy, least_busy
from smgproxy.routing.request import TOKEN_BYTES, RoutingRequest

METRICS = ("expected_wait", "requests", "least_requests")


class PowerOfTwoPolicy(Policy):
    """Draws two candidates and takes the one with less to do.

    ``metric`` is what is compared: the expected wait, the requests in flight, or, with
    ``least_requests``, those of all candidates rather than of two.
    """

    __slots__ = ("reads_loads", "_wait", "_metric")
    name = "power_of_two"

    def __init__(self, metric: str = "expected_wait", draw: Draw | None = None) -> None:
        super().__init__(draw)
        self._wait = ExpectedWait()
        self._metric = metric
        self.reads_loads = metric == "expected_wait"

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The better of two distinct candidates."""
        count = len(candidates)
        if count < 2:
            return candidates[0] if count else None
        if self._metric == "least_requests":
            return least_busy(candidates, self._draw)
        first = int(self._draw() * count)
        second = int(self._draw() * (count - 1))
        # The places behind the first move up by one: no pair is likelier than another.
        pair = (candidates[first], candidates[second + (second >= first)])
        if self._metric == "requests":
            return least_busy(pair, self._draw)
        tokens = len(request.tokens) // TOKEN_BYTES
        return self._wait.lowest(pair, tokens, self._draw)
