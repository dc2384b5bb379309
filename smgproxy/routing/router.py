"""From a model's name to one worker, or to the right error."""

from __future__ import annotations

import dataclasses

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers
from smgproxy.core.options import flag
from smgproxy.fleet.registry import UNKNOWN_MODEL, Registry
from smgproxy.fleet.worker import Worker
from smgproxy.routing.policies import POLICIES
from smgproxy.routing.policies.policy import Policy


@dataclasses.dataclass(frozen=True)
class RoutingOptions:
    """How workers are chosen."""

    policy: str = flag(
        "round_robin",
        "--policy",
        "Routing Policy",
        "how a worker is chosen among those that serve the model",
        choices=tuple(POLICIES),
    )


class Router:
    """Keeps one policy instance for each served model."""

    __slots__ = ("_registry", "_make", "_policies", "_version")

    def __init__(self, registry: Registry, options: RoutingOptions) -> None:
        self._registry = registry
        self._make = POLICIES[options.policy]
        self._policies: dict[str, Policy] = {}
        self._version = registry.version

    def pick(self, model: str | None) -> Worker:
        """The worker for one attempt.

        Raises ModelNotFound when no registered worker serves the model, whatever its
        state, and NoAvailableWorkers when some do but none is ready. A request that
        names no model may go to any worker.
        """
        name = model or UNKNOWN_MODEL
        candidates = self._registry.candidates(name)
        if not candidates:
            if self._registry.is_served(name):
                raise NoAvailableWorkers()
            raise ModelNotFound(name)
        policy = self._policies.get(name)
        if policy is None:
            policy = self._policy_for(name)
        worker = policy.pick(candidates)
        key = (name, policy.name)
        worker.selections[key] = worker.selections.get(key, 0) + 1
        return worker

    def is_served(self, model: str | None) -> bool:
        """Whether any registered worker serves the model."""
        return self._registry.is_served(model or UNKNOWN_MODEL)

    # -- what has to be known before a body is read (request streaming, section 1) ---

    @property
    def reads_text(self) -> bool:
        """Whether any policy in use reads the prompt."""
        return self._make.reads_text

    @property
    def has_many_models(self) -> bool:
        """Whether the body alone tells which of several models is meant."""
        return self._registry.model_count > 1

    @property
    def edits_bodies(self) -> bool:
        """Whether a worker needs a field of its own in the body."""
        return False

    def _policy_for(self, name: str) -> Policy:
        """A policy for a served model; names that left the fleet are dropped."""
        if self._version != self._registry.version:
            self._version = self._registry.version
            for stale in [n for n in self._policies if not self._registry.is_served(n)]:
                del self._policies[stale]
        policy = self._policies[name] = self._make()
        return policy
