"""What every selection policy is."""

from __future__ import annotations

from typing import Protocol

from smgproxy.fleet.worker import Worker


class Policy(Protocol):
    """Chooses among workers that are all able to serve; one instance a model."""

    name: str

    def pick(self, candidates: tuple[Worker, ...]) -> Worker:
        """One of ``candidates``, which is not empty."""
