"""What is noted when another model serves, and when the first one does again."""

from __future__ import annotations

import pytest

from smgproxy.admission.budget_rules import ModelRule, Policy, Quota, TenantRules
from smgproxy.admission.budgets import Budgets
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import NoAvailableWorkers
from smgproxy.core.exchange import Exchange
from smgproxy.core.message import RequestHead
from smgproxy.dispatch.fallback import Fallback, Fallbacks, asked_of_worker
from smgproxy.dispatch.retry import Attempts, RetryOptions
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions
from tests.core.scripted import ScriptedSink, ScriptedSource


class Room:
    """A request for model a, with b and c behind it, one worker each for a and b."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.router = Router(self.registry, RoutingOptions("round_robin"))
        self.fallbacks = Fallbacks({"a": ("b", "c")}, self.router)
        self.a, self.b = (self._add(model) for model in "ab")
        head = RequestHead("POST", "/v1/chat/completions", "", [])
        self.exchange = Exchange(head, ScriptedSource(), ScriptedSink(), "", 0.0)
        self.attempts = Attempts(RetryOptions())

    def _add(self, model: str) -> Worker:
        worker = Worker(model, f"http://{model}:1")
        worker.models = [{"id": model, "aliases": [f"{model}-alias"]}]
        worker.state = WorkerState.READY
        self.registry.add(worker)
        return worker

    def begin(self, model: str = "a") -> Fallback:
        self.routed = RoutingRequest(model)
        found = self.fallbacks.begin(self.exchange, model, self.routed)
        assert found is not None
        return found

    def served(self, fallback: Fallback) -> str:
        """Who is picked, and let go of again."""
        worker = fallback.pick(self.attempts)
        self.router.release(self.routed)
        assert worker.serves(fallback.model)
        return fallback.model

    def is_away(self, worker: Worker, is_away: bool = True) -> None:
        state = WorkerState.NOT_READY if is_away else WorkerState.READY
        self.registry.set_state(worker, state)


@pytest.mark.parametrize("model", [None, "b", "b-alias", "other", "unknown"])
def test_a_model_without_a_chain_has_no_fallback(model: str | None) -> None:
    room = Room()
    routed = RoutingRequest(model)
    assert room.fallbacks.begin(room.exchange, model, routed) is None


def test_a_request_is_counted_once_for_all_its_attempts_at_a_model() -> None:
    room = Room()
    fallback = room.begin()
    room.is_away(room.a)
    assert [room.served(fallback) for _ in range(3)] == ["b"] * 3
    assert room.fallbacks.counts == {("a", "b"): 1, ("a", "c"): 0}
    assert room.exchange.served_model == b"b"
    assert asked_of_worker(room.exchange, "a") == "b"


def test_an_attempt_at_the_model_itself_takes_the_name_back() -> None:
    room = Room()
    fallback = room.begin()
    room.is_away(room.a)
    room.served(fallback)
    room.is_away(room.a, False)
    assert room.served(fallback) == "a"
    assert room.exchange.served_model is None
    assert asked_of_worker(room.exchange, "a") == "a"


def test_where_an_attempt_failed_the_next_does_not_go() -> None:
    room = Room()
    fallback = room.begin()
    assert room.attempts.charges(room.a)
    assert room.served(fallback) == "b"
    assert fallback.has_other(room.attempts)


def test_the_charge_of_the_tenant_goes_where_the_request_goes() -> None:
    room = Room()
    rules = tuple(ModelRule(one, False, one, Quota(100, 1)) for one in "ab")
    budgets = Budgets(TenantRules(Policy(Quota(1000, 9), rules)), monotonic())
    room.exchange.reservation = budgets.reserve("t", "a", 100, monotonic())
    room.is_away(room.a)
    assert room.served(room.begin()) == "b"
    # That of a is whole again; b has nothing left, so another request gets none.
    second = Room()
    second.is_away(second.a)
    second.exchange.reservation = budgets.reserve("t", "a", 100, monotonic())
    with pytest.raises(NoAvailableWorkers):
        second.begin().pick(second.attempts)


def test_a_workers_own_alias_has_the_chain_of_its_model() -> None:
    room = Room()
    fallback = room.begin("a-alias")
    assert room.served(fallback) == "a-alias"
    assert room.exchange.served_model is None, "as it was asked for"
    room.is_away(room.a)
    assert room.served(fallback) == "b"
    assert room.exchange.served_model == b"b"
    assert room.fallbacks.counts == {("a", "b"): 1, ("a", "c"): 0}
    room.is_away(room.a, False)
    assert room.served(fallback) == "a-alias"


def test_an_alias_keeps_a_chain_of_its_own() -> None:
    room = Room()
    room.fallbacks = Fallbacks({"a": ("c",), "a-alias": ("b",)}, room.router)
    room.is_away(room.a)
    assert room.served(room.begin("a-alias")) == "b"
    assert room.fallbacks.counts == {("a", "c"): 0, ("a-alias", "b"): 1}


def test_an_alias_that_nobody_is_registered_under_is_for_nothing() -> None:
    room = Room()
    room.registry.remove(room.a)
    assert room.fallbacks.names("a-alias") is None
    assert room.fallbacks.names("a") is not None


def test_an_alias_that_lost_its_worker_within_a_request_still_falls_back() -> None:
    room = Room()
    fallback = room.begin("a-alias")
    room.registry.remove(room.a)
    assert room.served(fallback) == "b"
    assert room.fallbacks.counts == {("a", "b"): 1, ("a", "c"): 0}
