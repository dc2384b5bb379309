"""Which attempts at a worker are made again, after how long, and where; pure.

Only a request whose whole body is at hand, and of whose answer nothing has left, comes
here. The resend of a connection that went stale is the pool's, and is no retry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from smgproxy.core.errors import FirstByteTimeout, GatewayError, UpstreamError
from smgproxy.core.options import flag
from smgproxy.fleet.worker import Worker

_GROUP = "Retry Configuration"
_T = TypeVar("_T")

RETRIED_STATUS_CODES = frozenset((408, 429, 502, 503, 504))
# An engine's own failure is not worth asking the same engine again.
RETRIED_ELSEWHERE = 500
_NONE: frozenset[Worker] = frozenset()


@dataclasses.dataclass(frozen=True)
class RetryOptions:
    """How often, and after what pauses, a failed attempt is made again."""

    retry_max_retries: int = flag(
        5,
        "--retry-max-retries",
        _GROUP,
        "attempts for one request, the first included",
        minimum=1,
        remedy="1 makes no retries",
    )
    retry_initial_backoff_ms: int = flag(
        50,
        "--retry-initial-backoff-ms",
        _GROUP,
        "pause before the first retry",
        metavar="MS",
        minimum=0,
    )
    retry_max_backoff_ms: int = flag(
        30000,
        "--retry-max-backoff-ms",
        _GROUP,
        "longest pause before a retry",
        metavar="MS",
        minimum=0,
    )
    retry_backoff_multiplier: float = flag(
        1.5,
        "--retry-backoff-multiplier",
        _GROUP,
        "factor by which each pause is longer than the one before",
        minimum=1,
    )
    retry_jitter_factor: float = flag(
        0.2,
        "--retry-jitter-factor",
        _GROUP,
        "share of a pause by which it may be longer or shorter, at random",
        minimum=0,
        maximum=1,
    )

    disable_retries: bool = flag(
        False,
        "--disable-retries",
        _GROUP,
        "one attempt for each request, so that bodies of any size need not be read "
        "before they go on",
    )

    @property
    def is_enabled(self) -> bool:
        """Whether a body has to be kept for another attempt."""
        return not self.disable_retries and self.retry_max_retries > 1

    def __post_init__(self) -> None:
        if self.retry_max_backoff_ms < self.retry_initial_backoff_ms:
            raise ValueError(
                "--retry-max-backoff-ms: must be at least "
                f"--retry-initial-backoff-ms ({self.retry_initial_backoff_ms})"
            )

    def backoff_secs(self, retry: int, draw: float) -> float:
        """The pause before a retry; 1 is the first. ``draw`` is within [0, 1).

        The limit holds before the jitter. What a worker's Retry-After asks for plays
        no part (contract).
        """
        base: float = self.retry_initial_backoff_ms
        try:
            base *= self.retry_backoff_multiplier ** (retry - 1)
        except OverflowError:
            base = self.retry_max_backoff_ms
        base = min(base, self.retry_max_backoff_ms)
        return base * (1 + self.retry_jitter_factor * (2 * draw - 1)) / 1000


class Attempts:
    """One request's attempts.

    ``excluded`` are the workers that answered 500, or nothing for too long: this
    request goes to none of them again. ``charged`` are those at which it failed as
    their breakers count. ``is_exhausted`` tells, at the end, whether the last attempt
    would have been made again had there been one left.
    """

    __slots__ = ("_options", "charged", "made", "excluded", "is_exhausted")

    def __init__(self, options: RetryOptions) -> None:
        self._options = options
        self.charged = self.excluded = _NONE
        self.made = 0
        self.is_exhausted = False

    def retries_answer(
        self,
        worker: Worker,
        status: int,
        has_other: Callable[[_T, Attempts], bool],
        routed: _T,
    ) -> bool:
        """Whether a worker's answer is dropped, and another attempt made.

        ``has_other`` tells whether ``routed`` could go to a worker that is not
        ``excluded``; it is asked only after a 500.
        """
        if status == RETRIED_ELSEWHERE:
            self.excluded |= {worker}
            return self._again(has_other(routed, self))
        return self._again(status in RETRIED_STATUS_CODES)

    def retries_error(
        self,
        error: GatewayError,
        worker: Worker | None,
        has_other: Callable[[_T, Attempts], bool],
        routed: _T,
    ) -> bool:
        """Whether another attempt is made after one that got no whole answer.

        Errors that the gateway met at a worker are retried, whatever their status;
        its own refusals are not: nobody to pick, shed. ``worker``: None when nobody
        was picked.
        """
        if isinstance(error, FirstByteTimeout) and worker is not None:
            self.excluded |= {worker}
            return self._again(has_other(routed, self))
        return self._again(isinstance(error, UpstreamError))

    def charges(self, worker: Worker) -> bool:
        """Whether a failure is this request's first at ``worker``.

        A breaker counts one for each request and worker, or two bad requests with
        their retries would open it.
        """
        if worker in self.charged:
            return False
        self.charged |= {worker}
        return True

    def backoff_secs(self, draw: float) -> float:
        """The pause before the next attempt; ``draw`` is random within [0, 1)."""
        return self._options.backoff_secs(self.made, draw)

    def _again(self, is_retryable: bool) -> bool:
        options = self._options
        most = 1 if options.disable_retries else options.retry_max_retries
        is_left = self.made < most
        self.is_exhausted = is_retryable and not is_left
        return is_retryable and is_left
