"""Budgets: what is charged when, what is refused for how long, what is forgotten."""

from __future__ import annotations

import math

import pytest

from smgproxy.admission import budgets as budgets_module
from smgproxy.admission.budget_rules import ModelRule, Policy, Quota, TenantRules
from smgproxy.admission.budgets import (
    MAX_LABELS,
    MAX_USAGE_TOKENS,
    Budgets,
    Scope,
    estimate_tokens,
)
from smgproxy.core.errors import TenantRateLimited


def quota(tokens: int = 600, requests: int = 60) -> Quota:
    return Quota(tokens, requests)


def budgets(tokens: int = 600, requests: int = 60, *rules: ModelRule) -> Budgets:
    return Budgets(TenantRules(Policy(quota(tokens, requests), rules)), 0.0)


def retry_after(
    found: Budgets, tokens: int, now: float = 0.0, model: str = "m", tenant: str = "t"
) -> int | None:
    """The Retry-After of a request that is refused."""
    with pytest.raises(TenantRateLimited) as caught:
        found.reserve(tenant, model, tokens, now)
    [*fields] = caught.value.headers
    return int(dict(fields)[b"retry-after"]) if fields else None


def test_estimate_is_the_hints_count_or_a_quarter_of_the_bytes() -> None:
    assert estimate_tokens(4000, 17) == 17
    assert [estimate_tokens(size) for size in (0, 1, 4, 5)] == [0, 1, 1, 2]


def test_full_minute_can_be_spent_at_once_and_no_more() -> None:
    found = budgets(tokens=600)
    found.reserve("t", "m", 600, 0.0)
    assert retry_after(found, 1) == 1


def test_requests_are_a_budget_of_their_own() -> None:
    found = budgets(requests=3)
    for _ in range(3):
        found.reserve("t", "m", 0, 0.0)
    assert retry_after(found, 0) == 20
    found.reserve("t", "m", 0, 20.0)


def test_waiting_as_long_as_told_is_enough() -> None:
    for tokens in (1, 7, 59, 333, 600):
        found = budgets(tokens=600)
        found.reserve("t", "m", 600, 0.1)
        wait = retry_after(found, tokens, 0.1)
        assert wait == math.ceil(tokens / 10)
        found.reserve("t", "m", tokens, 0.1 + wait)


def test_longer_of_two_waits_is_told() -> None:
    found = budgets(tokens=600, requests=2)
    found.reserve("t", "m", 600, 0.0)
    found.reserve("t", "m", 0, 0.0)
    assert retry_after(found, 10) == 30  # a request in 30 s, ten tokens in 1


def test_prompt_beyond_the_budget_has_no_time_to_come_back_at() -> None:
    assert retry_after(budgets(tokens=600), 601) is None


def test_prompt_beyond_a_rules_budget_has_none_either() -> None:
    tight = ModelRule("r", False, "m", quota(tokens=10))
    assert retry_after(budgets(600, 60, tight), 11) is None


def test_level_never_passes_a_minutes_worth() -> None:
    found = budgets(tokens=600)
    found.reserve("t", "m", 600, 3600.0)
    assert retry_after(found, 1, 3600.0) == 1


def test_clock_that_goes_back_adds_nothing_and_takes_nothing() -> None:
    scope = Scope(quota(), 100.0)
    scope.take(100)
    scope.refill(50.0)
    assert scope.tokens == 500
    scope.refill(100.0)
    assert scope.tokens == 500
    scope.refill(101.0)
    assert scope.tokens == 510


# -- scopes --------------------------------------------------------------------------


def test_denied_request_is_charged_nowhere() -> None:
    tight = ModelRule("r", False, "m", quota(tokens=600, requests=1))
    found = budgets(600, 60, tight)
    found.reserve("t", "m", 100, 0.0)
    assert retry_after(found, 100) == 60
    found.reserve("t", "other", 500, 0.0)  # all that is left of the whole budget


def test_model_rule_is_charged_beside_the_whole() -> None:
    loose = ModelRule("r", True, "m", quota(tokens=10_000))
    found = budgets(600, 60, loose)
    found.reserve("t", "m-1", 600, 0.0)
    assert retry_after(found, 1, model="m-2") == 1
    assert retry_after(found, 1, model="other") == 1


def test_rule_is_shared_by_the_models_it_matches() -> None:
    prefix = ModelRule("r", True, "llama-", quota(tokens=50))
    found = budgets(600, 60, prefix)
    found.reserve("t", "llama-8b", 50, 0.0)
    assert retry_after(found, 10, model="llama-70b") == 12


def test_request_without_a_model_is_charged_to_the_whole() -> None:
    found = budgets(600, 60, ModelRule("r", True, "m", quota(tokens=1)))
    found.reserve("t", None, 600, 0.0)


def test_a_charge_moves_to_the_rule_of_the_model_that_serves() -> None:
    rules = [ModelRule(one, False, one, quota(100, 1)) for one in ("a", "b")]
    found = budgets(600, 60, *rules)
    reserved = found.reserve("t", "a", 100, 0.0)
    assert reserved.allows("b", 0.0)
    reserved.move("b", 0.0)
    assert retry_after(found, 1, model="b") == 60
    reserved.settle(100, 100, 0.0)
    assert retry_after(found, 1, model="b") == 61, "what was used is the rule's debt"
    found.reserve("t", "a", 100, 0.0)
    # Over all models the request was charged once.
    found.reserve("t", "other", 300, 0.0)
    assert retry_after(found, 1, model="other") == 1


def test_a_rule_that_cannot_pay_does_not_allow_a_charge_to_move() -> None:
    tight = ModelRule("b", False, "b", quota(tokens=99))
    found = budgets(600, 60, tight)
    reserved = found.reserve("t", "a", 100, 0.0)
    assert not reserved.allows("b", 0.0)
    assert reserved.allows("other", 0.0)


def test_a_charge_that_is_over_moves_no_more() -> None:
    found = budgets(600, 60, ModelRule("b", False, "b", quota(tokens=100)))
    reserved = found.reserve("t", "a", 100, 0.0)
    reserved.close()
    assert not reserved.allows("b", 0.0)
    reserved.move("b", 0.0)
    found.reserve("t", "b", 100, 0.0)


def test_tenants_of_the_default_policy_share_nothing() -> None:
    found = budgets(tokens=600)
    found.reserve("ip:1", "m", 600, 0.0)
    found.reserve("ip:2", "m", 600, 0.0)


def test_listed_tenant_has_its_own_policy() -> None:
    rules = TenantRules(Policy(quota(tokens=10)), {"auth:red": Policy(quota(600))})
    found = Budgets(rules, 0.0)
    found.reserve("auth:red", "m", 600, 0.0)
    assert retry_after(found, 600, tenant="auth:blue") is None


# -- settling ------------------------------------------------------------------------


def test_settling_charges_what_was_used_beyond_the_estimate() -> None:
    found = budgets(tokens=600)
    found.reserve("t", "m", 100, 0.0).settle(120, 80, 0.0)
    found.reserve("t", "m", 400, 0.0)
    assert retry_after(found, 1) == 1


def test_settling_gives_back_what_was_estimated_too_high() -> None:
    found = budgets(tokens=600)
    found.reserve("t", "m", 600, 0.0).settle(50, 50, 0.0)
    found.reserve("t", "m", 500, 0.0)


def test_giving_back_stops_at_full() -> None:
    found = budgets(tokens=600)
    charge = found.reserve("t", "m", 600, 0.0)
    charge.settle(0, 0, 60.0)  # all had come in by itself
    found.reserve("t", "m", 600, 60.0)
    assert retry_after(found, 1, 60.0) == 1


def test_debt_is_paid_off_before_anything_is_allowed() -> None:
    found = budgets(tokens=600)
    found.reserve("t", "m", 0, 0.0).settle(600, 600, 0.0)  # 600 tokens of debt
    assert retry_after(found, 0) == 60
    assert retry_after(found, 10) == 61
    found.reserve("t", "m", 10, 61.0)


def test_settling_does_not_give_the_request_back() -> None:
    found = budgets(requests=1)
    found.reserve("t", "m", 10, 0.0).settle(0, 0, 0.0)
    assert retry_after(found, 0) == 60


def test_model_rules_scope_is_settled_too() -> None:
    prefix = ModelRule("r", True, "m", quota(tokens=100))
    found = budgets(600, 60, prefix)
    found.reserve("t", "m", 100, 0.0).settle(10, 10, 0.0)
    found.reserve("t", "m", 80, 0.0)
    assert retry_after(found, 10) == 6


def test_first_end_of_a_reservation_counts() -> None:
    found = budgets(tokens=600)
    charge = found.reserve("t", "m", 100, 0.0)
    charge.settle(200, 0, 0.0)
    charge.settle(600, 600, 0.0)
    charge.close()
    assert not charge.is_open
    found.reserve("t", "m", 400, 0.0)


def test_closing_keeps_the_estimate() -> None:
    found = budgets(tokens=600)
    charge = found.reserve("t", "m", 600, 0.0)
    charge.close()
    charge.settle(0, 0, 0.0)
    assert retry_after(found, 1) == 1


@pytest.mark.parametrize(
    ("prompt", "completion", "used"),
    [
        (None, 30, 130),
        (50, None, 50),
        (-1, 30, 130),
        (50, -5, 50),
        (MAX_USAGE_TOKENS + 1, 30, 130),
        (50, 10**30, 50),
    ],
)
def test_count_that_is_missing_or_absurd_is_not_believed(
    prompt: int | None, completion: int | None, used: int
) -> None:
    found = budgets(tokens=600)
    found.reserve("t", "m", 100, 0.0).settle(prompt, completion, 0.0)
    found.reserve("t", "m", 600 - used, 0.0)
    assert retry_after(found, 1) == 1


# -- bounds --------------------------------------------------------------------------


@pytest.fixture
def room_for_ten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets_module, "MAX_TENANTS", 10)


@pytest.mark.usefixtures("room_for_ten")
def test_idle_tenants_are_forgotten_for_new_ones() -> None:
    found = budgets()
    for number in range(100):
        found.reserve(f"t{number}", "m", 10, 60.0 * number).close()
    assert len(found) == 10


@pytest.mark.usefixtures("room_for_ten")
def test_what_would_be_lost_is_not_forgotten() -> None:
    found = budgets(tokens=600)
    for number in range(10):
        found.reserve(f"t{number}", "m", 600, 0.0).close()
    found.reserve("late", "m", 600, 1.0).close()
    assert len(found) == 10
    # Newcomers share one budget while there is no room.
    assert retry_after(found, 600, 1.0, tenant="later") == 60
    assert retry_after(found, 600, 1.0, tenant="t0") == 59
    found.reserve("later", "m", 600, 61.0)
    assert len(found) == 10


@pytest.mark.usefixtures("room_for_ten")
def test_tenant_of_a_running_request_is_not_forgotten() -> None:
    found = budgets(tokens=600)
    charge = found.reserve("running", "m", 10, 0.0)
    for number in range(50):
        found.reserve(f"t{number}", "m", 1, 60.0 * (number + 1)).close()
    now = 60.0 * 51
    charge.settle(600, 600, now)
    assert retry_after(found, 0, now, tenant="running") == 59  # 590 tokens of debt


@pytest.mark.usefixtures("room_for_ten")
def test_debtors_at_the_head_of_the_queue_do_not_block_it() -> None:
    found = budgets(tokens=600)
    for number in range(9):
        found.reserve(f"debtor{number}", "m", 0, 0.0).settle(10**6, 0, 0.0)
    found.reserve("idle", "m", 1, 0.0).close()
    for _ in range(2):  # the first look does not come as far
        found.reserve("new", "m", 1, 100.0).close()
    assert len(found) == 10
    assert retry_after(found, 0, 100.0, tenant="debtor0") is not None


@pytest.mark.usefixtures("room_for_ten")
def test_listed_tenants_take_no_room_and_are_kept() -> None:
    listed = {f"auth:{number}": Policy(quota()) for number in range(20)}
    found = Budgets(TenantRules(Policy(quota()), listed), 0.0)
    for number in range(30):
        found.reserve(f"t{number}", "m", 1, 60.0 * number).close()
    assert len(found) == 30


# -- counting ------------------------------------------------------------------------


def test_decisions_are_counted_by_tenant() -> None:
    found = budgets(requests=1)
    found.reserve("t", "m", 0, 0.0)
    retry_after(found, 0)
    assert found.counts == {("t", "allowed"): 1, ("t", "rejected"): 1}


def test_labels_are_bounded_and_listed_tenants_have_theirs() -> None:
    found = Budgets(TenantRules(Policy(quota()), {"auth:red": Policy(quota())}), 0.0)
    for number in range(200):
        found.reserve(f"t{number}", "m", 0, 0.0)
    found.reserve("auth:red", "m", 0, 0.0)
    assert len({tenant for tenant, _ in found.counts}) == MAX_LABELS + 1
    assert found.counts["auth:red", "allowed"] == 1
    assert found.counts["other", "allowed"] == 200 - (MAX_LABELS - 1)
