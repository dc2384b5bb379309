"""Sticky sessions: a routing key keeps its worker, on top of any other policy."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker
from smgproxy.routing.hints import KEY_HEADER, lineage, routing_key, valid_rid
from smgproxy.routing.pins import Pin, Pins, assign
from smgproxy.routing.policy import Draw, Policy
from smgproxy.routing.request import RoutingRequest

# Requests of one key that its worker runs at the same time; more are placed anew.
MAX_IN_FLIGHT = 2

DELEGATE = "delegate"


class StickyPolicy(Policy):
    """Pins keyed requests; the others go to ``inner`` as if this were not here.

    A key is the first valid one of the headers ``names``, else the body's rid, either
    without its lineage suffixes (ruling 10). ``mode`` places new keys; with "delegate"
    the inner policy does. ``sources`` counts where keys came from.
    """

    __slots__ = (
        *("inner", "pins", "sources", "name", "reads_text", "reads_loads"),
        *("_names", "_mode"),
    )

    def __init__(
        self,
        inner: Policy,
        pins: Pins,
        names: tuple[bytes, ...] = (KEY_HEADER,),
        mode: str = DELEGATE,
        draw: Draw | None = None,
    ) -> None:
        super().__init__(draw)
        self.inner = inner
        # Metrics and the choice of a body's path go by the policy beneath.
        self.name = inner.name
        self.reads_text = inner.reads_text
        self.reads_loads = inner.reads_loads
        self.pins = pins
        self.sources = {"rid": 0, "header": 0}
        self._names = names
        self._mode = mode

    def pick(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        """The key's worker, or what the mode and the inner policy say."""
        key = self._key(request)
        if key is None:
            return self.inner.pick(candidates, request)
        if not candidates:
            self._count("no_healthy_workers")
            return None
        pin = self.pins.find(request.model, key, request.now)
        if pin is not None:
            request.pin = pin
            return self._again(pin, candidates, request)
        worker = self._place(candidates, request)
        if worker is not None:
            self._count("vacant")
            request.pin = self.pins.add(request.model, key, worker, request.now)
        return worker

    def _again(
        self, pin: Pin, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        known = pin.among(candidates)
        if known is not None and pin.in_flight(known) < MAX_IN_FLIGHT:
            self._count("occupied_hit")
            return known
        worker = self._place(candidates, request)
        if worker is None:
            return None
        if known is not None:
            self._count("cap_respill")
            if worker is not known and pin.in_flight(worker) < MAX_IN_FLIGHT:
                pin.respill(known, worker)
        else:
            self._count("occupied_miss")
            if self._mode == DELEGATE:
                pin.move(worker)
            else:
                pin.return_to_first(worker)
        return worker

    def _place(
        self, candidates: tuple[Worker, ...], request: RoutingRequest
    ) -> Worker | None:
        if self._mode == DELEGATE:
            return self.inner.pick(candidates, request)
        return assign(self._mode, candidates, self._draw)

    def _key(self, request: RoutingRequest) -> str | None:
        key = routing_key(request.headers, self._names)
        if key is not None:
            self.sources["header"] += 1
            return lineage(key)
        key = valid_rid(request.rid)
        if key is not None:
            self.sources["rid"] += 1
        return key

    def forget(self, worker: Worker) -> None:
        """Pins keep the worker's name only until they are used or too old."""
        self.inner.forget(worker)

    def forget_model(self, model: str) -> None:
        """Pass it on; the model's pins grow too old."""
        self.inner.forget_model(model)

    def sweep(self, now: float) -> bool:
        """Drop keys that were not used for long."""
        has_more = self.pins.sweep(now)
        return self.inner.sweep(now) or has_more
