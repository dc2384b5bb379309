"""What Python's garbage collector has to look at, and how often."""

from __future__ import annotations

import gc

# Requests make no cycles, so the collector finds next to nothing; by default it looks
# after every 700 objects more, which a few dozen concurrent requests are.
_COLLECT_AFTER = (20_000, 20, 10)


def settle_memory() -> None:
    """Spare the collector what exists now, which is to stay, and let it look seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
