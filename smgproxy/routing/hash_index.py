"""Which workers saw prompts that begin alike, by hashes of their heads.

For engines that keep reusable state at a few positions only: nothing between two
boundaries can match, so a tree would know more than is true.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from hashlib import blake2b

from smgproxy.fleet.worker import Worker

# Workers that one head remembers; a fourth takes the place of the stalest.
MAX_HOLDERS = 3
MAX_HEADS = 200_000
_MAX_SWEPT = 2000


class HashIndex:
    """Heads of token sequences, cut at ``boundaries``, and who holds them.

    A placement is good for ``ttl_secs`` after it was last recorded; that of a worker
    that left is never eligible and goes the same way.
    """

    __slots__ = ("_boundaries", "_ttl", "_most", "_heads")

    def __init__(
        self, boundaries: tuple[int, ...], ttl_secs: float, most: int = MAX_HEADS
    ) -> None:
        self._boundaries = boundaries
        self._ttl = ttl_secs
        self._most = most
        # By hash; the least recently recorded stand in front.
        self._heads: OrderedDict[bytes, dict[Worker, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._heads)

    def heads(self, tokens: bytes, token_bytes: int, partition: str) -> list[bytes]:
        """The hash at each boundary that the tokens reach, the deepest last."""
        reached = bisect_right(self._boundaries, len(tokens) // token_bytes)
        running = blake2b(partition.encode(), digest_size=16)
        hashes = []
        begin = 0
        for boundary in self._boundaries[:reached]:
            end = boundary * token_bytes
            running.update(tokens[begin:end])
            hashes.append(running.copy().digest())
            begin = end
        return hashes

    def find(
        self, heads: list[bytes], eligible: frozenset[Worker], now: float
    ) -> list[Worker]:
        """The eligible holders of the deepest head that has any."""
        fresh = now - self._ttl
        for head in reversed(heads):
            held = self._heads.get(head)
            if held:
                found = [
                    one for one, at in held.items() if at > fresh and one in eligible
                ]
                if found:
                    return found
        return []

    def record(self, heads: list[bytes], worker: Worker, now: float) -> None:
        """``worker`` holds all these heads from now on."""
        for head in heads:
            held = self._heads.get(head)
            if held is None:
                held = self._heads[head] = {}
                if len(self._heads) > self._most:
                    self._heads.popitem(last=False)
            else:
                self._heads.move_to_end(head)
                held.pop(worker, None)
            held[worker] = now
            if len(held) > MAX_HOLDERS:
                # A dictionary keeps its order: the stalest stands in front.
                del held[next(iter(held))]

    def sweep(self, now: float) -> bool:
        """Drop some of the heads that nobody holds any more; whether more may be."""
        fresh = now - self._ttl
        for _ in range(_MAX_SWEPT):
            if not self._heads:
                return False
            head, held = next(iter(self._heads.items()))
            if any(at > fresh for at in held.values()):
                return False
            del self._heads[head]
        return True
