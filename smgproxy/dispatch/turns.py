"""Long work on a body is done in steps, between which others have their turns."""

from __future__ import annotations

import asyncio
from typing import TypeVar, cast

from smgproxy.api.steps import Steps

_T = TypeVar("_T")


class LargeBodies:
    """Reads one large body at a time: each is in memory twice while it is read."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def read(self, steps: Steps[_T]) -> _T:
        """``in_turns``, when those before it are through."""
        async with self._lock:
            return await in_turns(steps)


async def in_turns(steps: Steps[_T]) -> _T:
    """What the steps come to, each in a turn of the event loop of its own.

    Raises what they do.
    """
    loop = asyncio.get_running_loop()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(_T, done.value)
        turn = loop.create_future()
        loop.call_soon(_end, turn)
        await turn


def _end(turn: asyncio.Future[None]) -> None:
    # A client that left had its request cancelled, and with it what it waited for.
    if not turn.done():
        turn.set_result(None)
