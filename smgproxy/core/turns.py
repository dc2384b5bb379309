"""What waits for a turn of the event loop: reads to be shared out, writes to be put
together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

# A read of so much may have left more behind, or will have by the next turn: to pass
# it on takes as long as its sender needs for the same again. uvloop reads 256,000 bytes
# at a time and up to 32 times in a row from a socket that does not run dry: 8 MB of one
# connection, in which no other gets its turn.
LARGE_READ_BYTES = 32 * 1024
# Connections read on in one turn of the event loop while their last reads came to less
# than this: a millisecond or two.
TURN_BYTES = 1024 * 1024


class CallSoon(Protocol):
    """The one thing needed of an event loop."""

    def __call__(self, callback: Callable[[], None], /) -> object:
        """Call ``callback`` in the next turn."""


class ReadTurns:
    """Lets connections that had a large read go on, a few in each turn of the loop.

    Each waits with its reading paused, so it is in the queue once at most.
    """

    __slots__ = ("_call_soon", "_waiting", "_is_due")

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_due = False

    def wait(self, size: int, go_on: Callable[[], None]) -> None:
        """Have ``go_on`` called when it is the caller's turn again; not at once.

        ``size``: the bytes of its last read, as many as the next may have.
        """
        self._waiting.append((size, go_on))
        if not self._is_due:
            self._is_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        waiting, left = self._waiting, TURN_BYTES
        try:
            for _ in range(len(waiting)):
                size, go_on = waiting.popleft()
                go_on()
                left -= size
                if left <= 0:
                    break
        finally:
            # One connection's error is no reason to leave the others waiting.
            self._is_due = bool(waiting)
            if self._is_due:
                self._call_soon(self._turn)


class Unsent(Protocol):
    """Who has bytes to write at the end of the turn."""

    def send_unsent(self) -> None:
        """Write them."""


class Outbox:
    """Has what is sent in one turn of the loop written at its end, one by one.

    A peer that sleeps is woken by the first of such writes and is awake for the rest.
    With other work between them it goes back to sleep each time, and to wake it costs
    more than the write.
    """

    __slots__ = ("_call_soon", "_waiting")

    def __init__(self, call_soon: CallSoon) -> None:
        self._call_soon = call_soon
        self._waiting: list[Unsent] = []

    def add(self, unsent: Unsent) -> None:
        """Have ``send_unsent`` called, once, when the turn is over."""
        if not self._waiting:
            self._call_soon(self._send)
        self._waiting.append(unsent)

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for unsent in waiting:
            unsent.send_unsent()
