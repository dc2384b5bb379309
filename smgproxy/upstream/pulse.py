"""Whether the worker at the other end of a quiet connection is still there."""

from __future__ import annotations

# A worker that was silent for so long is asked for a sign of life, and has so long to
# give one (contract, streaming 8.3).
PING_INTERVAL_SECS = 30.0
PING_TIMEOUT_SECS = 20.0


class Pulse:
    """When a peer was last heard of, and asked. Anything it sends is a sign of life."""

    __slots__ = ("_heard_at", "_asked_at")

    def __init__(self, now: float) -> None:
        self._heard_at = now
        self._asked_at = 0.0  # 0 = no answer is awaited

    def heard(self, now: float) -> None:
        """Bytes came."""
        self._heard_at = now
        self._asked_at = 0.0

    def is_lost(self, now: float) -> bool:
        """Whether it was asked, and had time enough to answer."""
        return self._asked_at > 0 and now - self._asked_at >= PING_TIMEOUT_SECS

    def is_to_be_asked(self, now: float) -> bool:
        """Whether it is time to ask; True once for each silence."""
        if self._asked_at or now - self._heard_at < PING_INTERVAL_SECS:
            return False
        self._asked_at = now
        return True
