"""How many requests the fleet can run at once, as the scheduler counts it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Of a worker that does not say: the contract's assumption.
ASSUMED_SLOTS = 64
# While no worker is ready and --max-concurrent-requests says nothing either.
FALLBACK_CAPACITY = 1024
_LABELS = ("max_running_requests", "max_num_seqs")


def fleet_capacity(
    labels: Iterable[Mapping[str, str]], max_concurrent_requests: int
) -> int:
    """The slots of the ready workers with these labels; at least 1.

    A worker has as many as ``max_running_requests`` says, or ``max_num_seqs``, or 64;
    a label that is no positive number says nothing. Without ready workers the
    concurrency limit stands in, or 1024.
    """
    slots = [_slots_of(each) for each in labels]
    if slots:
        return sum(slots)
    return max_concurrent_requests if max_concurrent_requests > 0 else FALLBACK_CAPACITY


def _slots_of(labels: Mapping[str, str]) -> int:
    for name in _LABELS:
        text = labels.get(name, "").strip()
        # Nine digits are more than any engine runs, and cheap to turn into a number.
        if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) > 0:
            return int(text)
    return ASSUMED_SLOTS
