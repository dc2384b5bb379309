"""Consistent hashing: keys keep their worker while others come and go."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from hashlib import blake2b

from smgproxy.fleet.worker import Worker

VIRTUAL_NODES = 150
# Workers whose places are remembered, and rings that one policy keeps ready.
_MAX_PLACED = 4096
_MAX_RINGS = 64


def stable_hash(data: bytes) -> int:
    """A 64-bit hash that is the same in every process, so that replicas agree."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


@lru_cache(maxsize=_MAX_PLACED)
def _places(url: str) -> tuple[int, ...]:
    return tuple(stable_hash(f"{url}#{n}".encode()) for n in range(VIRTUAL_NODES))


class Ring:
    """The workers' virtual nodes in order of their hashes.

    A worker's identity is its URL. Made of the workers that are available: leaving a
    worker out is the same as walking past it.
    """

    __slots__ = ("_hashes", "_owners")

    def __init__(self, workers: tuple[Worker, ...]) -> None:
        nodes = [(place, one.url, one) for one in workers for place in _places(one.url)]
        nodes.sort(key=lambda node: node[:2])
        self._hashes = [place for place, _, _ in nodes]
        self._owners = [worker for _, _, worker in nodes]

    def owner(self, key: bytes) -> Worker:
        """The first worker clockwise of the key's hash."""
        place = bisect_left(self._hashes, stable_hash(key))
        owners = self._owners
        return owners[place if place < len(owners) else 0]


class Rings:
    """A ring for each set of candidates, made when first asked for."""

    __slots__ = ("_rings",)

    def __init__(self) -> None:
        self._rings: dict[tuple[Worker, ...], Ring] = {}

    def of(self, workers: tuple[Worker, ...]) -> Ring:
        """The ring of these workers, which are at least one."""
        ring = self._rings.get(workers)
        if ring is None:
            if len(self._rings) >= _MAX_RINGS:
                del self._rings[next(iter(self._rings))]
            ring = self._rings[workers] = Ring(workers)
        return ring

    def forget(self, worker: Worker) -> None:
        """Drop the rings that the worker is on."""
        for workers in [one for one in self._rings if worker in one]:
            del self._rings[workers]
