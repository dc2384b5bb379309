"""consistent_hashing: a key's owner on a ring of the candidates; loads play no part."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.hints import (
    KEY_HEADER,
    implicit_key,
    routing_key,
    target_index,
    valid_rid,
)
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.ring import Rings


class ConsistentHashingPolicy(Policy):
    """What decides, the first that applies:

    1. X-SMG-Target-Worker, an index into the candidates; one that is none fails;
    2. the routing key of the listed headers, then of X-SMG-Routing-Key, then, with
       the override, the body's rid without its lineage suffixes;
    3. a header that tells clients apart;
    4. chance.
    """

    __slots__ = ("_names", "_reads_rid", "_rings")
    name = "consistent_hashing"

    def __init__(
        self,
        names: tuple[bytes, ...] = (KEY_HEADER,),
        reads_rid: bool = False,
        draw: Draw | None = None,
    ) -> None:
        super().__init__(draw)
        self._names = names if KEY_HEADER in names else (*names, KEY_HEADER)
        self._reads_rid = reads_rid
        self._rings = Rings()

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The worker that was asked for, or the key's owner, or any."""
        if not candidates:
            self._count("no_healthy_workers")
            return None
        headers = request.headers
        index = target_index(headers)
        if index is not None:
            return self._target(candidates, index)
        key = routing_key(headers, self._names)
        if key is None and self._reads_rid:
            key = valid_rid(request.rid)
        if key is not None:
            self._count("routing_key_hit")
            data = key.encode("utf-8", "surrogatepass")
            return self._rings.of(candidates).owner(data)
        implicit = implicit_key(headers)
        if implicit is not None:
            self._count("implicit_key_hit")
            return self._rings.of(candidates).owner(implicit)
        self._count("random_fallback")
        return candidates[int(self._draw() * len(candidates))]

    def _target(self, candidates: tuple[Worker, ...], index: int) -> Worker | None:
        if 0 <= index < len(candidates):
            self._count("target_worker_hit")
            return candidates[index]
        self._count("target_worker_miss")
        return None

    def forget(self, worker: Worker) -> None:
        """Drop the rings that the worker is on."""
        self._rings.forget(worker)
