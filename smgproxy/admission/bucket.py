"""A token bucket: a level that rises with time up to a brim."""

from __future__ import annotations

# A token that is this near to whole is whole: a timer set for the moment it is must
# not find it one rounding error short.
_NEARLY = 1e-6


class TokenBucket:
    """Holds at most ``capacity`` tokens, gains ``per_second``; starts full."""

    __slots__ = ("_capacity", "_per_second", "_level", "_at")

    def __init__(self, capacity: int, per_second: int) -> None:
        self._capacity = capacity
        self._per_second = per_second
        self._level = float(capacity)
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Take one token, if there is one."""
        self._rise(now)
        if self._level < 1.0 - _NEARLY:
            return False
        self._level = max(0.0, self._level - 1.0)
        return True

    def put_back(self) -> None:
        """Return one token; what would run over the brim is lost."""
        self._level = min(self._capacity, self._level + 1.0)

    def next_at(self) -> float:
        """When there is a token; now, or earlier, if there is one."""
        return self._at + (1.0 - self._level) / self._per_second

    def _rise(self, now: float) -> None:
        gained = (now - self._at) * self._per_second
        self._level = min(self._capacity, self._level + gained)
        self._at = now
