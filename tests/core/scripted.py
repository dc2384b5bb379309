"""A source and a sink that write down what is asked of them."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import ResponseHead


class ScriptedSource(Source):
    """Checks, as a transport would, that pause and resume take turns."""

    __slots__ = ("asked", "is_paused", "aborted_with", "wanted")

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.is_paused = False
        self.aborted_with: list[Exception] = []
        self.wanted = 0

    def on_pause(self) -> None:
        assert not self.is_paused, "paused twice"
        self.is_paused = True
        self.asked.append("pause")

    def on_resume(self) -> None:
        assert self.is_paused, "resumed without a pause"
        self.is_paused = False
        self.asked.append("resume")

    def on_abort(self, error: Exception) -> None:
        assert not self.aborted_with, "aborted twice"
        self.aborted_with.append(error)
        self.is_paused = False

    def on_wanted(self) -> None:
        self.wanted += 1


class ScriptedSink(Sink):
    """Takes everything; ``reaction`` is called from inside each write."""

    __slots__ = ("pieces", "is_ended", "errors", "reaction", "is_quiet")

    def __init__(self, reaction: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.pieces: list[bytes] = []
        self.is_ended = False
        self.errors: list[Exception] = []
        self.reaction = reaction
        self.is_quiet = False  # set by a test: from now on nothing may come

    def start(self, head: ResponseHead) -> None:
        raise AssertionError("a source starts no message")

    def write(self, data: bytes, end: bool = False) -> None:
        assert not self.is_ended, "written to behind the end"
        assert not self.errors, "written to behind an abort"
        assert not self.is_quiet, "written to after it aborted its source"
        self.pieces.append(data)
        self.is_ended = end
        if self.reaction is not None:
            self.reaction()

    def abort(self, error: Exception) -> None:
        assert not self.is_ended, "aborted behind the end"
        assert not self.is_quiet, "aborted after it aborted its source"
        self.errors.append(error)

    @property
    def data(self) -> bytes:
        """All that was written."""
        return b"".join(self.pieces)
