"""The index of one model: which workers are likely to hold which prompts."""

from __future__ import annotations

from typing import Generic

from smgproxy.fleet.worker import Worker
from smgproxy.routing.radix import Match, RadixTree
from smgproxy.routing.slots import Text

# Holders that are compared for one request (contract).
MAX_HOLDERS = 8
_WORK_AT_ONCE = 400


class HolderTree(Generic[Text]):
    """A radix tree whose holders are workers."""

    __slots__ = ("tree", "_numbers", "_workers", "_next", "_turn")

    def __init__(self, budget: int, page: int = 1) -> None:
        self.tree: RadixTree[Text] = RadixTree(budget, page)
        self._numbers: dict[Worker, int] = {}
        self._workers: dict[int, Worker] = {}
        self._next = 0
        self._turn = 0

    @property
    def workers(self) -> int:
        """How many workers hold anything."""
        return sum(size > 0 for size in self.tree.sizes.values())

    def among(self, eligible: frozenset[Worker], numbers: list[int]) -> list[Worker]:
        """A few of the holders that the tree told, as far as they are eligible."""
        if len(numbers) > MAX_HOLDERS:
            # Others each time, or what everybody holds would burden the first few.
            self._turn = begin = (self._turn + 1) % len(numbers)
            numbers = (numbers[begin:] + numbers[:begin])[:MAX_HOLDERS]
        fit = []
        for number in numbers:
            worker = self._workers[number]
            if worker in eligible:
                fit.append(worker)
        return fit

    def record(self, found: Match[Text], worker: Worker) -> None:
        """``worker`` holds the whole text from now on."""
        number = self._numbers.get(worker)
        if number is None:
            number = self._numbers[worker] = self._next
            self._workers[number] = worker
            self._next += 1
        self.tree.record(found, number)

    def forget(self, worker: Worker) -> None:
        """The worker left: nothing is matched by it any more."""
        number = self._numbers.pop(worker, None)
        if number is not None:
            del self._workers[number]
            self.tree.purge(number)

    def sweep(self) -> bool:
        """A slice of upkeep, about a millisecond; whether more is waiting."""
        has_more = self.tree.sweep(_WORK_AT_ONCE)
        return self.tree.evict(_WORK_AT_ONCE) or has_more
