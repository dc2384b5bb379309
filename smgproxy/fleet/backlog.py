"""How much work lies before a worker: what it reported, and what was sent since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# A cache said to be full would make its pressure infinite.
_MOST_USAGE = 0.99


class Backlog:
    """What the expected wait of one worker is computed from.

    It is kept as sums of tokens and of requests whose size nobody knows, so that a
    pick adds a few numbers only. What was sent stays until the next report counts it:
    it does not shrink when a request ends.
    """

    __slots__ = (
        *("is_reported", "usage", "pressure", "throughput", "queued_tokens"),
        *("running", "waiting", "tokens", "requests", "sent"),
    )

    def __init__(self) -> None:
        self.is_reported = False
        self.usage = 0.0  # share of the KV cache in use, 0 to 1
        self.pressure = 0.0  # usage / (1 - usage)
        self.throughput = 0.0  # tokens a second; 0 = not told
        self.queued_tokens = 0  # tokens that wait for prefill, as reported
        self.running = 0
        self.waiting = 0
        self.tokens = 0  # tokens before a new request, where they are known
        self.requests = 0  # requests before it of which they are not
        self.sent = 0  # requests sent since the report

    def note_report(self, report: Mapping[str, Any]) -> None:
        """Take over a load report (see load_report.py); it counts what was sent."""
        ranks = report["loads"]
        self.queued_tokens = sum(one["num_waiting_uncached_tokens"] for one in ranks)
        self.running = sum(one["num_running_reqs"] for one in ranks)
        self.waiting = sum(one["num_waiting_reqs"] for one in ranks)
        self.throughput = max(sum(one["gen_throughput"] for one in ranks), 0.0)
        usage = sum(one["token_usage"] for one in ranks) / len(ranks) if ranks else 0.0
        self.usage = max(usage, 0.0)
        bounded = min(self.usage, _MOST_USAGE)
        self.pressure = bounded / (1 - bounded)
        self.tokens = self.queued_tokens
        # A running request weighs about as much as one that is still to be placed.
        self.requests = self.running + (0 if self.queued_tokens else self.waiting)
        self.sent = 0
        self.is_reported = True

    def note_sent(self, tokens: int) -> None:
        """A request was sent; ``tokens`` is its prompt's length, 0 when unknown."""
        self.sent += 1
        if tokens:
            self.tokens += tokens
        else:
            self.requests += 1
