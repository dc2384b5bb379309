"""Which workers a routing key is used to, for as many keys as clients bring."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice

from smgproxy.fleet.worker import Worker
from smgproxy.routing.policy import Draw, least_busy, lowest

# The contract sets no limit; memory does. Beyond it the key unused longest is dropped.
MAX_KEYS = 1_000_000
# In parts, because a dictionary of a million keys stops the loop when it grows.
_PARTS = 64
_MAX_SWEPT = 2000

ASSIGNMENT_MODES = ("random", "min_load", "min_group", "delegate")


class Pin:
    """The one or two workers a key remembers, in order, and its requests in flight."""

    __slots__ = ("first", "second", "used_at", "_busy")

    def __init__(self, worker: Worker, now: float) -> None:
        self.first = worker
        self.second: Worker | None = None
        self.used_at = now
        self._busy: dict[Worker, int] | None = None

    def among(self, candidates: tuple[Worker, ...]) -> Worker | None:
        """The first remembered worker that is a candidate."""
        if self.first in candidates:
            return self.first
        if self.first.is_removed:
            again = _same_url(self.first, candidates)
            if again is not None:
                self.first = again
                return again
        second = self.second
        if second is not None and second.is_removed:
            second = self.second = _same_url(second, candidates) or second
        return second if second in candidates else None

    def in_flight(self, worker: Worker) -> int:
        """The key's requests that ``worker`` is running."""
        return self._busy.get(worker, 0) if self._busy else 0

    def enter(self, worker: Worker) -> None:
        """A request of the key goes to ``worker``."""
        if self._busy is None:
            self._busy = {}
        count = self._busy.get(worker, 0)
        self._busy[worker] = count + 1
        if not count:
            worker.active_keys += 1

    def leave(self, worker: Worker) -> None:
        """A request of the key that went to ``worker`` is over."""
        assert self._busy is not None
        left = self._busy[worker] - 1
        if left:
            self._busy[worker] = left
            return
        del self._busy[worker]
        worker.active_keys -= 1
        if not self._busy:
            self._busy = None

    def return_to_first(self, worker: Worker) -> None:
        """Fail over for now: the key goes home as soon as its first worker is back."""
        self.second = worker

    def move(self, worker: Worker) -> None:
        """Fail over for good: the key stays with ``worker``."""
        self.first, self.second = worker, self.first

    def respill(self, old: Worker, worker: Worker) -> None:
        """``worker`` takes the place of ``old``, where the key has too much to do."""
        if self.second is worker:
            self.second = None
        if self.first is old:
            self.first = worker
        else:
            self.second = worker


class Pins:
    """The pin of each key; keys of different models never meet."""

    __slots__ = ("_parts", "_most", "_idle_secs", "_next")

    def __init__(self, idle_secs: float = 0, most: int = MAX_KEYS) -> None:
        self._parts = [OrderedDict[str, Pin]() for _ in range(_PARTS)]
        self._most = max(most // _PARTS, 1)
        self._idle_secs = idle_secs  # 0 = keys are never too old
        self._next = 0

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def find(self, model: str, key: str, now: float) -> Pin | None:
        """The pin of a key, as used now; None when it has none."""
        name = f"{key}\0{model}"
        part = self._parts[hash(name) % _PARTS]
        pin = part.get(name)
        if pin is not None:
            part.move_to_end(name)
            pin.used_at = now
        return pin

    def add(self, model: str, key: str, worker: Worker, now: float) -> Pin:
        """Pin a key that has no pin."""
        name = f"{key}\0{model}"
        part = self._parts[hash(name) % _PARTS]
        pin = part[name] = Pin(worker, now)
        if len(part) > self._most:
            part.popitem(last=False)
        return pin

    def sweep(self, now: float) -> bool:
        """Drop some of the keys unused for too long; whether there may be more."""
        if not self._idle_secs:
            return False
        limit = now - self._idle_secs
        left = _MAX_SWEPT
        while self._next < _PARTS:
            part = self._parts[self._next]
            # The least recently used stand in front.
            due = [
                name for name, pin in islice(part.items(), left) if pin.used_at <= limit
            ]
            for name in due:
                del part[name]
            left -= len(due)
            if not left:
                return True
            self._next += 1
        self._next = 0
        return False


def _same_url(gone: Worker, candidates: tuple[Worker, ...]) -> Worker | None:
    """The worker that was registered again under the URL of one that left."""
    return next((one for one in candidates if one.url == gone.url), None)


def assign(mode: str, candidates: Sequence[Worker], draw: Draw) -> Worker:
    """A worker for a new key: at random, or where the least is going on."""
    if mode == "min_load":
        return least_busy(candidates, draw)
    if mode == "min_group":
        return lowest(candidates, [one.active_keys for one in candidates], draw)
    return candidates[int(draw() * len(candidates))]
