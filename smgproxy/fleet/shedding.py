"""When requests are refused because workers report too much work, and with what."""

from __future__ import annotations

from smgproxy.core.errors import OverloadShed
from smgproxy.fleet.worker import Worker


class Shedding:
    """The refusals of one gateway, made and counted (ruling 8).

    They are for clients to come back after ``retry_secs``.
    """

    __slots__ = (
        *("is_asked_for", "retry_secs"),
        *("selections", "dispatches", "fallbacks"),
    )

    def __init__(self, is_asked_for: bool = False, retry_secs: int = 10) -> None:
        """``is_asked_for``: by a flag, and so for every worker."""
        self.is_asked_for = is_asked_for
        self.retry_secs = retry_secs
        self.selections = 0
        self.dispatches = 0
        # Requests that the least loaded of overloaded workers got all the same.
        self.fallbacks = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests shed at selection and at dispatch, and those that were not."""
        return self.selections, self.dispatches, self.fallbacks

    def covers(self, worker: Worker) -> bool:
        """Whether requests are refused rather than that it gets them overloaded."""
        return self.is_asked_for or worker.overload is not None

    def at_selection(self, model: str) -> OverloadShed:
        """The refusal when every worker of a model is overloaded."""
        self.selections += 1
        return OverloadShed(
            f"All workers for model '{model}' are overloaded", self.retry_secs
        )

    def at_dispatch(self, worker: Worker, model: str) -> OverloadShed:
        """The refusal when the one picked became so while it was dialled."""
        self.dispatches += 1
        return OverloadShed(
            f"Worker '{worker.url}' for model '{model}' became overloaded before "
            "dispatch",
            self.retry_secs,
        )
