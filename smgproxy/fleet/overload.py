"""Which workers have too much to do, by what they report; pure.

The verdict is made once for each report, without hysteresis, and kept on the worker.
Without a report there is none: what is not known must not veto anybody.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from smgproxy.core.options import flag

_GROUP = "Routing Policy"


@dataclasses.dataclass(frozen=True)
class OverloadLimits:
    """At or above either of these a worker gets no new requests."""

    waiting_requests: int = 8
    token_usage: float = 0.8

    def is_passed(self, report: Mapping[str, Any]) -> bool:
        """Whether a load report (see load_report.py) is at or above a limit."""
        ranks = report["loads"]
        if not ranks:
            return False
        waiting = sum(one["num_waiting_reqs"] for one in ranks)
        usage = sum(one["token_usage"] for one in ranks) / len(ranks)
        return bool(waiting >= self.waiting_requests or usage >= self.token_usage)


DEFAULT_LIMITS = OverloadLimits()


def parse_share(text: str) -> float:
    """A number above 0 and up to 1."""
    try:
        share = float(text)
    except ValueError:
        raise ValueError("must be a number, such as 0.8") from None
    if not 0 < share <= 1:
        raise ValueError("must be a fraction in (0.0, 1.0], such as 0.8")
    return share


@dataclasses.dataclass(frozen=True)
class OverloadOptions:
    """When a worker has too much to do, and what happens when all of them have."""

    worker_overload_waiting_requests: int | None = flag(
        None,
        "--worker-overload-waiting-requests",
        _GROUP,
        "waiting requests with which a worker gets no more (default: 8, and then the "
        "least loaded one serves when all are over)",
        minimum=1,
        remedy="0 would mark every worker overloaded",
    )
    worker_overload_token_usage: float | None = flag(
        None,
        "--worker-overload-token-usage",
        _GROUP,
        "KV cache usage with which a worker gets no more requests (default: 0.8, and "
        "then the least loaded one serves when all are over)",
        parse=parse_share,
    )
    worker_overload_protection: bool = flag(
        False,
        "--worker-overload-protection",
        _GROUP,
        "refuse requests when all workers are overloaded, with the default limits",
    )
    disable_worker_overload_protection: bool = flag(
        False,
        "--disable-worker-overload-protection",
        _GROUP,
        "send requests to workers however loaded they are",
    )
    worker_overload_shed: bool = flag(
        False,
        "--worker-overload-shed",
        _GROUP,
        "refuse requests when all workers are overloaded",
    )

    @property
    def limits(self) -> OverloadLimits | None:
        """The limits of a worker that has none of its own; None for no protection."""
        if self.disable_worker_overload_protection:
            return None
        waiting = self.worker_overload_waiting_requests
        usage = self.worker_overload_token_usage
        return OverloadLimits(
            DEFAULT_LIMITS.waiting_requests if waiting is None else waiting,
            DEFAULT_LIMITS.token_usage if usage is None else usage,
        )

    @property
    def is_asked_for(self) -> bool:
        """Whether protection is more than the default, and so sheds (ruling 8)."""
        return (
            self.worker_overload_waiting_requests is not None
            or self.worker_overload_token_usage is not None
            or self.worker_overload_protection
            or self.worker_overload_shed
        )
