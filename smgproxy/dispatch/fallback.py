"""What it means for an exchange that another model serves (--model-fallback)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from smgproxy.api.bodies import Call
from smgproxy.core.clock import monotonic
from smgproxy.core.exchange import Exchange
from smgproxy.dispatch.retry import Attempts
from smgproxy.dispatch.turns import in_turns
from smgproxy.fleet.worker import Worker
from smgproxy.routing.fallback import Way
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router

_NONE: frozenset[Worker] = frozenset()


class Names(NamedTuple):
    """Who may serve a request: the model as it was asked for, then its fallbacks."""

    models: tuple[str, ...]
    chain: str  # the model whose fallbacks they are


class Fallbacks:
    """The chains of one gateway, and how often each name of them served."""

    __slots__ = ("_chains", "_router", "counts")

    def __init__(self, chains: Mapping[str, tuple[str, ...]], router: Router) -> None:
        self._chains = dict(chains)
        self._router = router
        # Requests by the model asked for and the fallback they went to.
        self.counts = {(m, one): 0 for m, others in chains.items() for one in others}

    def names(self, model: str | None) -> Names | None:
        """A model and its fallbacks; None when it has none.

        A name that only workers' cards know has those of the model it is for, unless it
        has a chain of its own. It stays as it was asked for: those workers know it.
        """
        if model is None:
            return None
        chain: str | None = model
        others = self._chains.get(model)
        if others is None:
            chain = self._router.canonical(model)
            others = None if chain is None else self._chains.get(chain)
        if chain is None or others is None:
            return None
        return Names((model, *others), chain)

    def begin(
        self, exchange: Exchange, model: str | None, routed: RoutingRequest
    ) -> Fallback | None:
        """The fallback of a request for a model; None when that has none."""
        names = self.names(model)
        if names is None:
            return None
        return Fallback(self, exchange, names, self._router, routed)

    def serves(self, exchange: Exchange, names: Names, served: str) -> bool:
        """Note that a worker was picked for a model; whether that changed which."""
        name = None if served == names.models[0] else served.encode()
        if name == exchange.served_model:
            return False
        exchange.served_model = name
        if name is not None:
            self.counts[names.chain, served] += 1
        return True


def asked_of_worker(exchange: Exchange, label: str) -> str:
    """The label of the model a worker is asked for, beside that of the one asked."""
    served: bytes | None = exchange.served_model
    return label if served is None else served.decode()


class Fallback:
    """One request whose model has fallbacks."""

    __slots__ = ("_owner", "_exchange", "_names", "_routed", "_way")

    def __init__(
        self,
        owner: Fallbacks,
        exchange: Exchange,
        names: Names,
        router: Router,
        routed: RoutingRequest,
    ) -> None:
        self._owner = owner
        self._exchange = exchange
        self._names = names
        self._routed = routed
        self._way = Way(names.models, router, routed, self._may_serve)

    @property
    def model(self) -> str:
        """The model that serves, behind a pick."""
        return self._routed.name

    def pick(self, attempts: Attempts | None = None) -> Worker:
        """The worker of the next attempt. Raises what the model asked for does."""
        if attempts is None:
            worker = self._way.pick(_NONE, _NONE)
        else:
            worker = self._way.pick(attempts.excluded, attempts.charged)
        exchange = self._exchange
        is_changed = self._owner.serves(exchange, self._names, self.model)
        if is_changed and exchange.reservation is not None:
            exchange.reservation.move(self.model, monotonic())
        return worker

    async def rename(self, call: Call) -> None:
        """Have the call ask for the model that serves."""
        if call.model != self.model:
            await in_turns(call.rename_steps(self.model))

    def has_other(self, attempts: Attempts | None = None) -> bool:
        """Whether the next attempt could go elsewhere, to any model of the chain."""
        return self._way.has_other(_NONE if attempts is None else attempts.excluded)

    def _may_serve(self, model: str) -> bool:
        """Whether the tenant may use a fallback: its budget has a rule for each."""
        reservation = self._exchange.reservation
        return reservation is None or reservation.allows(model, monotonic())
