"""The score that policies compare loads by: seconds a new request is likely to wait.

    (queued + in flight + own) / throughput + kv_weight * usage / (1 - usage)

The first sum is in tokens: those that wait, running requests at one mean prompt each,
what was sent since the last report, and the request that is being placed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policy import Draw, least_busy


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedWait:
    """How backlogs become seconds; the defaults are those of every policy."""

    mean_prefill_tokens: int = 1024
    default_throughput: float = 2000.0
    kv_weight_secs: float = 0.15

    def lowest(self, candidates: Sequence[Worker], tokens: int, draw: Draw) -> Worker:
        """The candidate that a request of ``tokens`` (0 = unknown) waits least at.

        Of equal ones the one with fewer requests in flight and running, then any.
        When nobody reported its load, the one with the fewest in flight.
        """
        if len(candidates) == 1:
            return candidates[0]
        scores = self.scores(candidates, tokens)
        if scores is None:
            return least_busy(candidates, draw)
        low = min(scores)
        if scores.count(low) == 1:
            return candidates[scores.index(low)]
        tied = [one for one, score in zip(candidates, scores) if score == low]
        busy = [one.load + one.backlog.running for one in tied]
        fewest = min(busy)
        tied = [one for one, count in zip(tied, busy) if count == fewest]
        return tied[int(draw() * len(tied))]

    def scores(self, candidates: Sequence[Worker], tokens: int) -> list[float] | None:
        """Each candidate's expected wait; None when nobody reported its load.

        Who has no report counts as the best of those that have, and behind its own
        requests in flight.
        """
        mean = self.mean_prefill_tokens
        default = self.default_throughput
        weight = self.kv_weight_secs
        own = tokens or mean
        scores = []
        unknown = []
        for place, worker in enumerate(candidates):
            lies = worker.backlog
            if lies.is_reported:
                ahead = lies.tokens + lies.requests * mean + own
                score = ahead / (lies.throughput or default) + weight * lies.pressure
                scores.append(score)
            else:
                unknown.append(place)
                scores.append(float("inf"))
        if unknown:
            if len(unknown) == len(scores):
                return None
            best = min(scores)
            for place in unknown:
                scores[place] = best + candidates[place].load * mean / default
        return scores
