"""When requests are refused because workers report too much work, and with what."""

from __future__ import annotations

from smgproxy.core.errors import OverloadShed
from smgproxy.fleet.worker import Worker


class Shedding:
    """The refusals of one gateway (ruling 8).

    They are for clients to come back after ``retry_secs``. Whoever answers with one
    counts it: a pick that is refused may be followed by one that is not.
    """

    __slots__ = ("is_asked_for", "retry_secs", "fallbacks")

    def __init__(self, is_asked_for: bool = False, retry_secs: int = 10) -> None:
        """``is_asked_for``: by a flag, and so for every worker."""
        self.is_asked_for = is_asked_for
        self.retry_secs = retry_secs
        # Requests that the least loaded of overloaded workers got all the same.
        self.fallbacks = 0

    def covers(self, worker: Worker) -> bool:
        """Whether requests are refused rather than that it gets them overloaded."""
        return self.is_asked_for or worker.overload is not None

    def at_selection(self, model: str) -> OverloadShed:
        """The refusal when every worker of a model is overloaded."""
        return OverloadShed(
            f"All workers for model '{model}' are overloaded",
            self.retry_secs,
            "selection",
        )

    def at_dispatch(self, worker: Worker, model: str) -> OverloadShed:
        """The refusal when the one picked became so while it was dialled."""
        return OverloadShed(
            f"Worker '{worker.url}' for model '{model}' became overloaded before "
            "dispatch",
            self.retry_secs,
            "dispatch",
        )
