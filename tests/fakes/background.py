"""Coroutines run by hand on a hand-wound clock, without an event loop."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Coroutine, Generator
from typing import Any

from tests.fakes.clock import FakeClock


@types.coroutine
def _pause(secs: float) -> Generator[float, None, None]:
    yield secs


class FakeTask:
    """One coroutine: runs until it sleeps, and on when the clock says so."""

    def __init__(self, clock: FakeClock, coroutine: Coroutine[Any, Any, None]) -> None:
        self._clock = clock
        self._coroutine: Coroutine[Any, Any, None] | None = coroutine
        self._is_running = False
        self._is_cancelled = False

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._coroutine is None

    def step(self) -> None:
        """Run to the next sleep, or to the end."""
        coroutine = self._coroutine
        if coroutine is None:
            return
        self._is_running = True
        try:
            if self._is_cancelled:
                coroutine.throw(asyncio.CancelledError())
            secs = coroutine.send(None)
        except (StopIteration, asyncio.CancelledError):
            self._coroutine = None
        except BaseException:
            self._coroutine = None
            raise
        else:
            self._clock.call_later(secs, self.step)
            if self._is_cancelled:
                self.step()
        finally:
            self._is_running = False

    def cancel(self) -> None:
        """End it at its sleep; a running one at its next sleep."""
        self._is_cancelled = True
        if not self._is_running:
            self.step()


class FakeBackground:
    """``spawn`` and ``sleep`` for what runs on its own."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.tasks: list[FakeTask] = []

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> FakeTask:
        """Begin at once, as far as the first sleep."""
        task = FakeTask(self._clock, coroutine)
        self.tasks.append(task)
        task.step()
        return task

    async def sleep(self, secs: float) -> None:
        """Wait until the clock was wound so far."""
        await _pause(secs)

    @property
    def running(self) -> int:
        """Coroutines that have not ended."""
        return sum(not task.is_done for task in self.tasks)
