"""Data-parallel workers: one engine behind one URL, as one worker for each rank.

The worker of rank 2 behind http://host:8000 is registered as http://host:8000@2: it has
a load, a breaker and an id of its own, and requests for it go to the URL.
"""

from __future__ import annotations

from collections.abc import Mapping

# Ranks of one engine; more is a mistake in what it tells.
MAX_RANKS = 1024


def rank_url(url: str, rank: int) -> str:
    """What the worker of one rank is registered as."""
    return f"{url}@{rank}"


def split_rank(url: str) -> tuple[str, int | None]:
    """A worker's URL and its rank; None when it is no rank of anything."""
    base, mark, rank = url.rpartition("@")
    if mark and rank.isascii() and rank.isdigit():
        return base, int(rank)
    return url, None


def ranks_told(labels: Mapping[str, str]) -> int | None:
    """How many ranks an engine has by what it told of itself at registration.

    None when it told no number that can be true.
    """
    text = labels.get("dp_size", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    count = int(text) if is_number else 0
    return count if 1 <= count <= MAX_RANKS else None
