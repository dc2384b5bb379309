"""Work on a body in steps, between which others may have their turns."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar, cast

_T = TypeVar("_T")
Steps = Generator[None, None, _T]


def at_once(steps: Steps[_T]) -> _T:
    """What comes of steps that nobody needs a turn between. Raises what they do."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return cast(_T, done.value)
