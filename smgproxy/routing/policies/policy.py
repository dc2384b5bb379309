"""What every selection policy is."""

from __future__ import annotations

from typing import Protocol

from smgproxy.fleet.worker import Worker


class Policy(Protocol):
    """Chooses among workers that are all able to serve; one instance a model."""

    name: str
    # Whether a pick is better for knowing the prompt, so that a body without a token
    # hint has to be read before a worker is chosen.
    reads_text: bool

    def pick(self, candidates: tuple[Worker, ...]) -> Worker:
        """One of ``candidates``, which is not empty."""
