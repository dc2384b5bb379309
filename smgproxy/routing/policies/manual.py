"""manual: a routing key keeps its worker."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.hints import routing_key, valid_rid
from smgproxy.routing.pins import Pins, assign
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import RoutingRequest


class ManualPolicy(Policy):
    """Pins each key of X-SMG-Routing-Key, as it is, to the worker it was first given.

    Each model has keys of its own: a pin has two places, and three models that shared
    it would take them from each other with every request.
    ``mode`` places keys that are new. With ``reads_rid`` the body's rid, without its
    lineage suffixes, is the key of a request that brings no other.
    """

    __slots__ = ("pins", "_mode", "_reads_rid")
    name = "manual"

    def __init__(
        self,
        mode: str = "random",
        idle_secs: float = 14400,
        reads_rid: bool = False,
        draw: Draw | None = None,
    ) -> None:
        super().__init__(draw)
        self.pins = Pins(idle_secs)
        # There is no other policy to delegate to.
        self._mode = "min_load" if mode == "delegate" else mode
        self._reads_rid = reads_rid

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The key's first available worker, or a new one for it."""
        if not candidates:
            self._count("no_healthy_workers")
            return None
        key = self._key(request)
        if key is None:
            self._count("no_routing_id")
            return assign(self._mode, candidates, self._draw)
        pin = self.pins.find(request.model, key, request.now)
        if pin is None:
            self._count("vacant")
            worker = assign(self._mode, candidates, self._draw)
            request.pin = self.pins.add(request.model, key, worker, request.now)
            return worker
        request.pin = pin
        known = pin.among(candidates)
        if known is not None:
            self._count("occupied_hit")
            return known
        self._count("occupied_miss")
        worker = assign(self._mode, candidates, self._draw)
        pin.return_to_first(worker)
        return worker

    def _key(self, request: RoutingRequest) -> str | None:
        key = routing_key(request.headers)
        if key is not None and key.isascii():
            return key
        return valid_rid(request.rid) if self._reads_rid else None

    def sweep(self, now: float) -> bool:
        """Drop keys that were not used for long."""
        return self.pins.sweep(now)
