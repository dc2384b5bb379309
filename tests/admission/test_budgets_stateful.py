"""Budgets under any order of reserving, settling, closing and waiting."""

from __future__ import annotations

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from smgproxy.admission.budget_rules import ModelRule, Policy, Quota, TenantRules
from smgproxy.admission.budgets import Budgets, Reservation, Scope
from smgproxy.core.errors import TenantRateLimited


class BudgetMachine(RuleBasedStateMachine):
    """Budgets beside a model that adds up what was charged, for one tenant."""

    charges = Bundle("charges")
    TOKENS, REQUESTS, RULE_TOKENS = 120, 6, 60

    def __init__(self) -> None:
        super().__init__()
        tight = ModelRule("r", True, "big", Quota(self.RULE_TOKENS, self.REQUESTS))
        policy = Policy(Quota(self.TOKENS, self.REQUESTS), (tight,))
        self.budgets = Budgets(TenantRules(policy), 0.0)
        self.now = 0.0
        self.open = 0
        self.may_owe = 0  # tokens that settling charged beyond estimates

    def scopes(self) -> tuple[Scope, ...]:
        budget = self.budgets._budget_of("t", self.now)
        return budget.scopes("big", self.now)

    @rule(
        target=charges,
        model=st.sampled_from(["big-1", "small", None]),
        tokens=st.integers(0, 150),
    )
    def reserve(self, model: str | None, tokens: int) -> Reservation | None:
        before = [(one.tokens, one.requests) for one in self.scopes()]
        try:
            charge = self.budgets.reserve("t", model, tokens, self.now)
        except TenantRateLimited as error:
            assert before == [(one.tokens, one.requests) for one in self.scopes()]
            wait = dict(error.headers).get(b"retry-after")
            largest = self.RULE_TOKENS if model == "big-1" else self.TOKENS
            assert (wait is None) == (tokens > largest)
            return None
        charged = 2 if model == "big-1" else 1
        after = [(one.tokens, one.requests) for one in self.scopes()]
        for (had, had_requests), (has, has_requests) in list(zip(before, after))[
            :charged
        ]:
            assert had - tokens == has >= -1e-3
            assert has_requests == max(0.0, had_requests - 1)
        assert before[charged:] == after[charged:]
        self.open += 1
        return charge

    @rule(charge=consumes(charges), used=st.integers(0, 300), again=st.booleans())
    def settle(self, charge: Reservation | None, used: int, again: bool) -> None:
        if charge is None:
            return
        charge.settle(used, 0, self.now)
        self.may_owe += max(0, used - charge.estimate)
        self.open -= 1
        if again:
            levels = [one.tokens for one in self.scopes()]
            charge.settle(500, 500, self.now)
            charge.close()
            assert levels == [one.tokens for one in self.scopes()]

    @rule(charge=consumes(charges))
    def cancel(self, charge: Reservation | None) -> None:
        if charge is None:
            return
        levels = [one.tokens for one in self.scopes()]
        charge.close()
        self.open -= 1
        assert levels == [one.tokens for one in self.scopes()]

    @rule(secs=st.floats(0, 90))
    def wait(self, secs: float) -> None:
        before = [(one.tokens, one.requests) for one in self.scopes()]
        self.now += secs
        for had, scope in zip(before, self.scopes()):
            assert scope.tokens >= had[0] and scope.requests >= had[1]

    @rule(tokens=st.integers(0, 60))
    def retry_when_told(self, tokens: int) -> None:
        """Nobody else spends meanwhile, so the promise holds."""
        try:
            self.budgets.reserve("t", "small", tokens, self.now).close()
        except TenantRateLimited as error:
            self.now += int(dict(error.headers)[b"retry-after"])
            self.budgets.reserve("t", "small", tokens, self.now).close()

    @invariant()
    def levels_keep_their_bounds(self) -> None:
        for scope in self.scopes():
            assert scope.tokens <= scope.quota.tokens_per_minute
            assert scope.tokens >= -self.may_owe - 1e-3
            assert 0 <= scope.requests <= scope.quota.requests_per_minute

    @invariant()
    def open_reservations_are_counted(self) -> None:
        assert self.budgets._budget_of("t", self.now).open == self.open


BudgetMachine.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestBudgetMachine = BudgetMachine.TestCase
