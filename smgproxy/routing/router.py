"""From a model's name to one worker, or to the right error."""

from __future__ import annotations

import dataclasses
import math
import random

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers
from smgproxy.core.options import flag
from smgproxy.fleet.registry import UNKNOWN_MODEL, Registry
from smgproxy.fleet.shedding import Shedding
from smgproxy.fleet.worker import Worker
from smgproxy.routing.catalog import POLICIES, PolicyMaker
from smgproxy.routing.expected_wait import ExpectedWait
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.policy import Policy
from smgproxy.routing.request import TOKEN_BYTES, RoutingRequest

POLICY_LABEL = "policy"
# How often a policy with the built-in settings is kept in order (contract).
LABELLED_SWEEP_SECS = 30


@dataclasses.dataclass(frozen=True)
class RoutingOptions:
    """How workers are chosen."""

    policy: str = flag(
        "cache_aware",
        "--policy",
        "Routing Policy",
        "how a worker is chosen among those that serve the model: "
        + ", ".join(sorted(POLICIES)),
        metavar="POLICY",
        choices=tuple(sorted(POLICIES)),
    )


class Pool:
    """Who may serve one model right now, until ``wake`` or the next change."""

    __slots__ = ("model", "available", "wake", "overloaded", "policy", "selection")

    def __init__(
        self,
        model: str,
        available: tuple[Worker, ...],
        wake: float,
        overloaded: tuple[Worker, ...],
        policy: Policy,
        selection: tuple[str, str],
    ) -> None:
        self.model = model
        self.available = available
        self.wake = wake
        # Every worker of the model, when that is why none is available.
        self.overloaded = overloaded
        self.policy = policy
        self.selection = selection  # as what workers count picks, see Worker


class Router:
    """Knows who is available and asks the model's policy.

    When every worker of a model is overloaded, the request goes to where it waits
    least all the same, unless one of the workers is covered by ``shedding`` (ruling 8).
    """

    __slots__ = (
        *("_registry", "_maker", "_default", "_labelled", "_pools"),
        *("_workers", "_edits_bodies", "_wait", "_draw", "_shedding"),
        *("_reads_text", "_sweep_secs", "_sweeps_at"),
    )

    def __init__(
        self,
        registry: Registry,
        options: RoutingOptions,
        policies: PolicyOptions | None = None,
        shedding: Shedding | None = None,
    ) -> None:
        self._registry = registry
        policies = policies or PolicyOptions()
        self._maker = PolicyMaker(options.policy, policies)
        self._default = self._maker.default()
        # Policies of models whose first worker asked for one; None: it did not.
        self._labelled: dict[str, Policy | None] = {}
        self._pools: dict[str, Pool] = {}
        self._workers: set[Worker] = set()
        self._edits_bodies = False
        # Asked for every request, and changed only with the fleet.
        self._reads_text = False
        self._wait = ExpectedWait()
        self._draw = random.Random().random
        self._shedding = shedding or Shedding()
        # Policies that labels ask for are kept in order even where the flag says never.
        self._sweep_secs = policies.eviction_interval_secs or LABELLED_SWEEP_SECS
        self._sweeps_at = 0.0
        self._refresh()
        registry.watch(self._refresh)

    def policies(self) -> list[Policy]:
        """Every policy in use, the gateway's own first."""
        own = [one for one in self._labelled.values() if one is not None]
        return [self._default, *own]

    def pick(self, request: RoutingRequest) -> Worker:
        """The worker for one attempt, charged with it until ``release``.

        Choice and charge are one step, or a burst would all go to one worker. Raises
        ModelNotFound when no registered worker serves the model, whatever its state;
        NoAvailableWorkers when some do and none can be picked; OverloadShed. A request
        that names no model may go to any worker.
        """
        pool = self._pool(request.name, request.now)
        request.model = pool.model
        candidates = pool.available
        if request.excluded:
            excluded = request.excluded
            candidates = tuple(one for one in candidates if one not in excluded)
        worker = pool.policy.pick(candidates, request)
        if worker is None:
            worker = self._when_nobody(pool, request)
        worker.load += 1
        worker.backlog.note_sent(len(request.tokens) // TOKEN_BYTES)
        if request.pin is not None:
            request.pin.enter(worker)
        request.worker = worker
        selection = pool.selection
        worker.selections[selection] = worker.selections.get(selection, 0) + 1
        return worker

    def release(self, request: RoutingRequest) -> None:
        """The attempt is over, however it ended; once for each pick."""
        worker = request.worker
        assert worker is not None
        worker.load -= 1
        if request.pin is not None:
            request.pin.leave(worker)
            request.pin = None
        request.worker = None

    def has_other(self, request: RoutingRequest) -> bool:
        """Whether a worker that is not excluded could be picked."""
        try:
            available = self._pool(request.name, request.now).available
        except ModelNotFound:
            return False
        return any(one not in request.excluded for one in available)

    def is_served(self, model: str | None) -> bool:
        """Whether any registered worker serves the model."""
        return self._registry.is_served(UNKNOWN_MODEL if model is None else model)

    def canonical(self, model: str) -> str | None:
        """What a name is for: the id of the first card that has it; None for none."""
        return self._registry.canonical(model)

    # -- what has to be known before a body is read (request streaming, section 1) ---

    @property
    def reads_text(self) -> bool:
        """Whether any policy in use reads the prompt."""
        return self._reads_text

    @property
    def reads_loads(self) -> bool:
        """Whether any policy in use goes by what engines report, or shedding does."""
        sheds = self._shedding.is_asked_for
        return sheds or any(policy.reads_loads for policy in self.policies())

    @property
    def has_many_models(self) -> bool:
        """Whether the body alone tells which of several models is meant."""
        return self._registry.model_count > 1

    @property
    def edits_bodies(self) -> bool:
        """Whether a worker needs a field of its own in the body."""
        return self._edits_bodies

    def sweep(self, now: float) -> bool:
        """A slice of the policies' upkeep, some milliseconds at most.

        Whether more is waiting, and so should be called again before long. Upkeep
        begins every --eviction-interval-secs, and when a worker left.
        """
        if now < self._sweeps_at:
            return False
        has_more = any([policy.sweep(now) for policy in self.policies()])
        if not has_more:
            self._sweeps_at = now + self._sweep_secs
        return has_more

    def _when_nobody(self, pool: Pool, request: RoutingRequest) -> Worker:
        if not pool.overloaded:
            raise NoAvailableWorkers()
        if any(map(self._shedding.covers, pool.overloaded)):
            raise self._shedding.at_selection(request.name)
        left = [one for one in pool.overloaded if one not in request.excluded]
        if not left:
            raise NoAvailableWorkers()
        self._shedding.fallbacks += 1
        tokens = len(request.tokens) // TOKEN_BYTES
        return self._wait.lowest(left, tokens, self._draw)

    # -- who is available ---------------------------------------------------------

    def _pool(self, name: str, now: float) -> Pool:
        pool = self._pools.get(name)
        if pool is None or now >= pool.wake:
            pool = self._look(name, now)
        return pool

    def _look(self, name: str, now: float) -> Pool:
        """Ask every worker's breaker, which may end its timeout."""
        registry = self._registry
        model = registry.canonical(name)
        if model is None:
            raise ModelNotFound(name)
        available = []
        overloaded = []
        wake = math.inf
        for worker in registry.candidates(model):
            if not worker.breaker.admits(now):
                wake = min(wake, worker.breaker.reopens_at)
            elif worker.is_overloaded:
                overloaded.append(worker)
            else:
                available.append(worker)
        serving = sum(model == UNKNOWN_MODEL or w.serves(model) for w in registry.all())
        scope = model if model != UNKNOWN_MODEL else registry.only_model() or model
        policy = self._labelled.get(model) or self._default
        pool = Pool(
            scope,
            tuple(available),
            wake,
            tuple(overloaded) if len(overloaded) == serving else (),
            policy,
            (UNKNOWN_MODEL if name == UNKNOWN_MODEL else scope, policy.name),
        )
        self._pools[name] = pool
        return pool

    def _refresh(self) -> None:
        """Workers came, went or changed: forget who left, look anew at the others."""
        registry = self._registry
        self._pools.clear()
        workers = set(registry.all())
        for gone in self._workers - workers:
            for policy in self.policies():
                policy.forget(gone)
        if not self._workers <= workers:
            self._sweeps_at = 0.0  # what is left of them takes memory
        self._workers = workers
        self._edits_bodies = any(one.dp_rank is not None for one in workers)
        models = registry.models()
        for model in set(self._labelled) - set(models):
            for policy in self.policies():
                policy.forget_model(model)
            del self._labelled[model]
        for model in models:
            if model not in self._labelled:
                first = next(one for one in registry.all() if one.serves(model))
                label = first.labels.get(POLICY_LABEL, "")
                self._labelled[model] = self._maker.labelled(label)
        self._reads_text = any(policy.reads_text for policy in self.policies())
