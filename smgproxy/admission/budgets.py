"""Budgets of tenants: tokens and requests, reserved before a worker is chosen.

A reservation debits one request and the estimated prompt tokens; when the true usage
is known it is settled, which may leave a debt that the refill pays off. A budget is
never cut into while a reply runs: it is the next request that is refused.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from smgproxy.admission.budget_rules import Policy, Quota, TenantRules
from smgproxy.core.errors import TenantRateLimited

# Tenants with budgets at one time. A record is about 0.5 kB.
MAX_TENANTS = 10_000
# Of them, how many are looked at for one that can be forgotten.
_LOOKS = 8
# Tenants with a label of their own on the metrics page; the others are "other".
MAX_LABELS = 32
# A worker that reports more than this for one request is not believed.
MAX_USAGE_TOKENS = 100_000_000

ALLOWED, REJECTED = "allowed", "rejected"
_BYTES_PER_TOKEN = 4
# Levels are sums of floats: whoever waited as long as told must not be refused for
# the last bit of one.
_SLACK_SECS = 1e-6


def estimate_tokens(text_bytes: int, hinted: int | None = None) -> int:
    """The prompt's tokens, before a tokenizer has seen it (ruling 9).

    ``hinted``: how many tokens the routing hint names, if there is a valid one.
    """
    return -(-text_bytes // _BYTES_PER_TOKEN) if hinted is None else hinted


class Scope:
    """Two buckets that refill continuously: one of tokens, one of requests.

    Each starts full and holds at most a minute's worth. The level of tokens may be
    negative, that of requests may not.
    """

    __slots__ = ("quota", "tokens", "requests", "_at")

    def __init__(self, quota: Quota, now: float) -> None:
        self.quota = quota
        self.tokens = float(quota.tokens_per_minute)
        self.requests = float(quota.requests_per_minute)
        self._at = now

    def refill(self, now: float) -> None:
        """Add what has come in; a clock that went back adds nothing."""
        minutes = (now - self._at) / 60
        if minutes <= 0:
            return
        quota = self.quota
        tokens, requests = quota.tokens_per_minute, quota.requests_per_minute
        self.tokens = min(float(tokens), self.tokens + tokens * minutes)
        self.requests = min(float(requests), self.requests + requests * minutes)
        self._at = now

    def wait_secs(self, tokens: int) -> float:
        """Seconds until it can pay for a request; 0 now, infinite never."""
        quota = self.quota
        if tokens > quota.tokens_per_minute:
            return math.inf
        short_tokens = (tokens - self.tokens) / quota.tokens_per_minute
        short_requests = (1 - self.requests) / quota.requests_per_minute
        wait = 60 * max(short_tokens, short_requests)
        return wait if wait > _SLACK_SECS else 0.0

    def take(self, tokens: int) -> None:
        """Pay for a request that it can pay for."""
        self.tokens -= tokens
        self.requests = max(0.0, self.requests - 1)

    def correct(self, tokens: int) -> None:
        """Take what a request used beyond its estimate; negative: give back."""
        limit = float(self.quota.tokens_per_minute)
        self.tokens = min(limit, self.tokens - tokens)

    def give_back(self, tokens: int) -> None:
        """Undo ``take``; after ``refill``."""
        self.correct(-tokens)
        self.requests = min(float(self.quota.requests_per_minute), self.requests + 1)

    @property
    def is_full(self) -> bool:
        """Whether forgetting it changes nothing; after ``refill``."""
        quota = self.quota
        return (
            self.tokens >= quota.tokens_per_minute
            and self.requests >= quota.requests_per_minute
        )


class TenantBudget:
    """The scopes of one tenant, its policy's and those of model rules it has used."""

    __slots__ = ("policy", "whole", "by_rule", "open")

    def __init__(self, policy: Policy, now: float) -> None:
        self.policy = policy
        self.whole = Scope(policy.quota, now)
        self.by_rule: dict[str, Scope] = {}
        self.open = 0  # reservations that are not over

    def scopes(self, model: str | None, now: float) -> tuple[Scope, ...]:
        """What a request for this model is charged to, refilled up to now."""
        self.whole.refill(now)
        rule = self.policy.rule_for(model)
        if rule is None:
            return (self.whole,)
        scope = self.by_rule.get(rule.rule_id)
        if scope is None:
            scope = self.by_rule[rule.rule_id] = Scope(rule.quota, now)
        scope.refill(now)
        return (self.whole, scope)

    def is_idle(self, now: float) -> bool:
        """Whether nothing is lost when it is forgotten."""
        if self.open:
            return False
        for scope in (self.whole, *self.by_rule.values()):
            scope.refill(now)
            if not scope.is_full:
                return False
        return True


class Reservation:
    """What one request has been charged; ends once, whoever is first."""

    __slots__ = ("_budget", "_scopes", "estimate")

    def __init__(
        self, budget: TenantBudget, scopes: tuple[Scope, ...], estimate: int
    ) -> None:
        self._budget: TenantBudget | None = budget
        self._scopes = scopes
        self.estimate = estimate  # tokens of the prompt
        budget.open += 1

    @property
    def is_open(self) -> bool:
        """Whether it has not ended yet."""
        return self._budget is not None

    def allows(self, model: str, now: float) -> bool:
        """Whether the rule of another model could pay for it, too."""
        if self._budget is None:
            return False
        scopes = self._budget.scopes(model, now)
        return not any(
            one.wait_secs(self.estimate) for one in scopes if one not in self._scopes
        )

    def move(self, model: str, now: float) -> None:
        """Charge the rule of another model instead, whether or not it can pay."""
        if self._budget is None:
            return
        scopes = self._budget.scopes(model, now)
        for scope in scopes:
            if scope not in self._scopes:
                scope.take(self.estimate)
        for scope in self._scopes:
            if scope not in scopes:
                scope.refill(now)
                scope.give_back(self.estimate)
        self._scopes = scopes

    def settle(self, prompt: int | None, completion: int | None, now: float) -> None:
        """End it with the tokens used; of a count that is missing, the estimate stands.

        Counts that no request can have are as good as missing. Later calls change
        nothing.
        """
        if not self._end():
            return
        used = (
            self.estimate if not _is_count(prompt) else prompt,
            0 if not _is_count(completion) else completion,
        )
        beyond = sum(count or 0 for count in used) - self.estimate
        for scope in self._scopes:
            scope.refill(now)
            scope.correct(beyond)

    def close(self) -> None:
        """End it with its estimate: an error, a client that left, no usage told."""
        self._end()

    def _end(self) -> bool:
        budget, self._budget = self._budget, None
        if budget is not None:
            budget.open -= 1
        return budget is not None


def _is_count(tokens: int | None) -> bool:
    return tokens is not None and 0 <= tokens <= MAX_USAGE_TOKENS


class Budgets:
    """The budgets of all tenants of one gateway.

    A listed tenant keeps its record. Of the others at most MAX_TENANTS have one;
    records are forgotten, oldest use first, once they are full and nothing is open.
    When none can be forgotten, newcomers share one budget of the default policy.
    """

    __slots__ = ("_rules", "_listed", "_others", "_overflow", "_labels", "counts")

    def __init__(self, rules: TenantRules, now: float) -> None:
        self._rules = rules
        self._listed = {
            tenant: TenantBudget(policy, now)
            for tenant, policy in rules.tenants.items()
        }
        self._others: OrderedDict[str, TenantBudget] = OrderedDict()
        self._overflow: TenantBudget | None = None
        self._labels = set(list(rules.tenants)[:MAX_LABELS])
        # smg_tenant_rate_limit_total, by tenant label and result.
        self.counts: dict[tuple[str, str], int] = {}

    def __len__(self) -> int:
        """How many tenants have a record."""
        return len(self._listed) + len(self._others)

    def reserve(
        self, tenant: str, model: str | None, tokens: int, now: float
    ) -> Reservation:
        """Charge a request: once for all its attempts, before a worker is chosen.

        Every scope can pay, or none does. Raises TenantRateLimited.
        """
        budget = self._budget_of(tenant, now)
        scopes = budget.scopes(model, now)
        wait = max(scope.wait_secs(tokens) for scope in scopes)
        if wait > 0:
            self._count(tenant, REJECTED)
            raise TenantRateLimited(_whole_secs(wait))
        for scope in scopes:
            scope.take(tokens)
        self._count(tenant, ALLOWED)
        return Reservation(budget, scopes, tokens)

    def _budget_of(self, tenant: str, now: float) -> TenantBudget:
        listed = self._listed.get(tenant)
        if listed is not None:
            return listed
        others = self._others
        found = others.get(tenant)
        if found is not None:
            others.move_to_end(tenant)
            return found
        if len(others) >= MAX_TENANTS and not self._forget_one(now):
            if self._overflow is None:
                self._overflow = TenantBudget(self._rules.default, now)
            return self._overflow
        found = others[tenant] = TenantBudget(self._rules.default, now)
        return found

    def _forget_one(self, now: float) -> bool:
        """Make room; records in use go behind, so that the next look sees others."""
        for _ in range(_LOOKS):
            tenant, oldest = next(iter(self._others.items()))
            if oldest.is_idle(now):
                del self._others[tenant]
                return True
            self._others.move_to_end(tenant)
        return False

    def _count(self, tenant: str, result: str) -> None:
        labels = self._labels
        if tenant not in labels:
            if len(labels) < MAX_LABELS:
                labels.add(tenant)
            else:
                tenant = "other"
        key = (tenant, result)
        self.counts[key] = self.counts.get(key, 0) + 1


def _whole_secs(wait: float) -> int | None:
    """Retry-After of a wait: rounded up, at least 1; None for one that never ends."""
    return None if math.isinf(wait) else max(1, math.ceil(wait - _SLACK_SECS))
