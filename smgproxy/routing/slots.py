"""The memory of a radix tree: numbered slots, and the list of its records by age.

Nodes are numbers, and what is known of them stands in arrays. A quarter of a million
prompts then are a few large objects rather than a million small ones: the garbage
collector has nothing to visit, and a node costs a third of what it would as an object.
"""

from __future__ import annotations

from array import array
from typing import Generic, TypeVar

Text = TypeVar("Text", str, bytes)

NONE = -1
ROOT = 0
_GROWTH = 1024


class Slots(Generic[Text]):
    """A slot is a node together with its first holder.

    Or, with no edge, it is one more holder of the node that is its parent. Slot 0 is
    the root, and the anchor of the list: ``newer[0]`` is the oldest record and
    ``older[0]`` the newest. Who is not in the list has NONE in both.
    """

    __slots__ = (
        *("edges", "parents", "kids", "kid_sums", "holders", "stamps"),
        *("ages", "older", "newer", "used", "_free"),
    )

    def __init__(self) -> None:
        self.edges: list[Text | None] = [None]
        # Lists where a pick reads or writes: they hold numbers that exist anyway, which
        # an array would make anew, and are quicker to write.
        self.parents = [NONE]
        self.holders = [NONE]
        self.kids = array("i", [0])
        # The sum of a node's children: of a single one, the child itself.
        self.kid_sums = array("q", [0])
        # When a slot was last passed through, and when it last was a record's end.
        self.stamps = [0]
        self.ages = [0]
        self.older = [ROOT]
        self.newer = [ROOT]
        self.used = 0  # without the root
        self._free: list[int] = []

    def take(self, edge: Text | None, parent: int) -> int:
        """A slot that was free, without holder, children or place in the list."""
        if not self._free:
            self._grow()
        self.used += 1
        slot = self._free.pop()
        self.edges[slot] = edge
        self.parents[slot] = parent
        return slot

    def _grow(self) -> None:
        first = len(self.edges)
        self.edges.extend([None] * _GROWTH)
        for numbers in (self.kids, self.kid_sums, self.stamps, self.ages):
            numbers.extend([0] * _GROWTH)
        nothing = [NONE] * _GROWTH
        self.parents.extend(nothing)
        self.holders.extend(nothing)
        self.older.extend(nothing)
        self.newer.extend(nothing)
        self._free.extend(range(first + _GROWTH - 1, first - 1, -1))

    def free(self, slot: int) -> None:
        """Give a slot back that is in no list and has no holder."""
        self.edges[slot] = None
        self.parents[slot] = NONE
        self.kids[slot] = self.kid_sums[slot] = 0
        self._free.append(slot)
        self.used -= 1

    def length(self, node: int) -> int:
        """How long a node's edge is; the root has none."""
        edge = self.edges[node]
        return 0 if edge is None else len(edge)

    def renew(self, slot: int, age: int) -> None:
        """Put a slot at the list's new end."""
        older, newer = self.older, self.newer
        behind = newer[slot]
        if behind != NONE:  # as unlink() has it, without the call
            newer[older[slot]] = behind
            older[behind] = older[slot]
        self.ages[slot] = age
        last = older[ROOT]
        newer[last] = slot
        older[slot] = last
        newer[slot] = ROOT
        older[ROOT] = slot

    def unlink(self, slot: int) -> None:
        """Take a slot out of the list; nothing happens when it is not in it."""
        older, newer = self.older, self.newer
        behind = newer[slot]
        if behind != NONE:
            before = older[slot]
            newer[before] = behind
            older[behind] = before
            newer[slot] = older[slot] = NONE


def common(edge: Text, text: Text, start: int) -> int:
    """How many elements of ``edge`` stand in ``text`` from ``start`` on.

    Compares slices, not elements: each of these steps runs at the speed of memcmp.
    """
    low, high = 0, min(len(edge), len(text) - start)
    piece = 64
    while low < high:
        end = min(low + piece, high)
        if edge[low:end] != text[start + low : start + end]:
            high = end
            break
        low = end
        piece *= 4
    # All before low is equal, and the first difference lies before high.
    while high - low > 1:
        middle = (low + high) // 2
        if edge[low:middle] == text[start + low : start + middle]:
            low = middle
        else:
            high = middle
    return low
