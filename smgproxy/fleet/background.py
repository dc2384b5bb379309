"""What runs on behalf of the fleet, so that all of it can be ended."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from smgproxy.fleet.outside import Running, Spawn


class Errand:
    """One coroutine that runs on its own until it ends or is cancelled."""

    __slots__ = ("_run", "_running", "_all")

    def __init__(
        self, run: Callable[[], Coroutine[Any, Any, None]], running: set[Errand]
    ) -> None:
        self._run = run
        self._running: Running | None = None
        self._all = running

    def begin(self, spawn: Spawn) -> None:
        """Set out."""
        self._all.add(self)
        running = spawn(self._to_the_end())
        # Spawn may have run it to its end already.
        if self in self._all:
            self._running = running

    def cancel(self) -> None:
        """End it at its next wait; safe when it has ended."""
        self._all.discard(self)
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def _to_the_end(self) -> None:
        try:
            await self._run()
        finally:
            self._all.discard(self)
            self._running = None


class Background:
    """Starts errands, knows those that still run, and ends them all at close."""

    __slots__ = ("_spawn", "_errands", "_is_closed")

    def __init__(self, spawn: Spawn) -> None:
        self._spawn = spawn
        self._errands: set[Errand] = set()
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._errands)

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Errand:
        """Run it, unless the fleet is closed.

        A function is taken, not a coroutine: one that is cancelled before its first
        step was then never made.
        """
        errand = Errand(run, self._errands)
        if not self._is_closed:
            errand.begin(self._spawn)
        return errand

    def close(self) -> None:
        """End everything and start nothing more."""
        self._is_closed = True
        for errand in list(self._errands):
            errand.cancel()
