"""Tenants' budgets: which policy holds for a tenant, and which rule for a model."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """What may be spent in a minute; also the most that can be saved up."""

    tokens_per_minute: int
    requests_per_minute: int


@dataclasses.dataclass(frozen=True, slots=True)
class ModelRule:
    """A quota of its own for the models that match."""

    rule_id: str
    is_prefix: bool
    value: str
    quota: Quota


class Policy:
    """A tenant's quota over all models, and its model rules."""

    __slots__ = ("quota", "rules", "_exact", "_prefixes")

    def __init__(self, quota: Quota, rules: tuple[ModelRule, ...] = ()) -> None:
        self.quota = quota
        self.rules = rules
        self._exact = {one.value: one for one in rules if not one.is_prefix}
        prefixes = [one for one in rules if one.is_prefix]
        self._prefixes = sorted(prefixes, key=lambda one: -len(one.value))

    def rule_for(self, model: str | None) -> ModelRule | None:
        """The one rule of a model: an exact one before prefixes, the longest first."""
        if model is None:
            return None
        exact = self._exact.get(model)
        if exact is not None:
            return exact
        for rule in self._prefixes:
            if model.startswith(rule.value):
                return rule
        return None


@dataclasses.dataclass(frozen=True, slots=True)
class TenantRules:
    """Every tenant's policy; who is not listed has the default's, for itself."""

    default: Policy
    tenants: dict[str, Policy] = dataclasses.field(default_factory=dict)

    def policy_of(self, tenant: str) -> Policy:
        """The policy of a tenant key."""
        return self.tenants.get(tenant, self.default)
