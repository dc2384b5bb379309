"""Data-parallel workers: one engine behind one URL, as one worker for each rank.

The worker of rank 2 behind http://host:8000 is registered as http://host:8000@2: it has
a load, a breaker and an id of its own, and requests for it go to the URL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def ranks_by_label(labels: Mapping[str, str]) -> int:
    """How many ranks an engine has by what it told at registration; 1 by default."""
    text = labels.get("dp_size", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 10
    return ranks_of({"dp_size": int(text)}) if is_number else 1


def ranks_of(server_info: Any) -> int:
    """How many ranks an engine has by its /server_info; 1 when it does not tell."""
    size = server_info.get("dp_size") if isinstance(server_info, dict) else None
    if isinstance(size, bool) or not isinstance(size, int):
        return 1
    return min(max(size, 1), MAX_RANKS)
