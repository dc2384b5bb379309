"""A load generator at work: read what it says, with a deadline, and end it."""

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType

from loadtest.stage import MeasureError, Stage, pinned

Figures = dict[str, float]


class LoadTool:
    """One run of a load tool, for use in a `with` statement.

    The tool says in JSON lines where it is; it keeps its connections open until
    `close`, so that the program under load can be looked at before they go.
    """

    __slots__ = ("_child", "_pending")

    def __init__(self, stage: Stage, argv: Sequence[str]) -> None:
        self._pending = b""
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=stage.root,
            preexec_fn=pinned(stage.tool_cores),
        )

    def __enter__(self) -> "LoadTool":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def wait_for(self, phase: str, secs: float) -> Figures:
        """The tool's line for this phase; MeasureError when it does not come."""
        deadline = time.monotonic() + secs
        assert self._child.stdout is not None
        source = self._child.stdout.fileno()
        while True:
            line, mark, rest = self._pending.partition(b"\n")
            if mark:
                self._pending = rest
                if line.startswith(b"{"):
                    said = json.loads(line)
                    if said.pop("phase") == phase:
                        return {key: float(value) for key, value in said.items()}
                continue
            left = max(0.0, deadline - time.monotonic())
            if not select.select([source], [], [], left)[0]:
                raise MeasureError(f"load tool silent for {secs:.0f} s")
            data = os.read(source, 65536)
            if not data:
                raise MeasureError(f"load tool ended, code {self._child.wait(5)}")
            self._pending += data

    def close(self) -> None:
        """Let the tool go; it ends by itself, or is ended after a second."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(1)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        if self._child.stdout is not None:
            self._child.stdout.close()
