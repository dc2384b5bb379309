"""What clients can make the router remember, by the way that their requests take."""

from __future__ import annotations

import pytest

from smgproxy.core.errors import ModelNotFound
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.pins import Pins
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy
from smgproxy.routing.policies.manual import ManualPolicy
from smgproxy.routing.radix import CHARACTERS_PER_NODE
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions
from smgproxy.routing.sticky import StickyPolicy
from tests.routing.fleet import KEY, asked, prompt, tokens, workers
from tests.telemetry.test_metrics_page import Page

PROMPTS = 200_000
KEYS = 1_000_000
NAMES = 100_000
BUDGET = 1 << 18


def _registry() -> Registry:
    registry = Registry()
    for worker in workers(3):
        worker.models = [{"id": "m"}]
        worker.state = WorkerState.READY
        registry.add(worker)
    return registry


def _send(router: Router, request: RoutingRequest) -> Worker:
    """Pick, and be done with it."""
    worker = router.pick(request)
    router.release(request)
    return worker


def _cache_aware(**options: object) -> tuple[Router, CacheAwarePolicy]:
    changed = PolicyOptions(**options)  # type: ignore[arg-type]
    router = Router(_registry(), RoutingOptions("cache_aware"), changed)
    [policy] = router.policies()
    assert isinstance(policy, CacheAwarePolicy)
    return router, policy


def test_200_000_distinct_prompts_take_the_budget_and_no_more() -> None:
    router, policy = _cache_aware(max_tree_size=BUDGET)
    for number in range(PROMPTS):
        _send(router, prompt(f"{number * 7919 % 200_003:06d} tell me more"))
    tree = policy.indexes["m"].texts.tree
    # An eighth of slack, in characters and in what stands for them.
    assert tree.size <= BUDGET * 9 // 8
    assert len(tree) <= BUDGET // CHARACTERS_PER_NODE * 9 // 8 + 2
    assert len(tree._slots.edges) <= 2 * BUDGET // CHARACTERS_PER_NODE
    while router.sweep(0):
        pass
    assert tree.size <= BUDGET
    assert list(policy.indexes) == ["m"]


def test_distinct_partitions_are_no_way_around_the_budget() -> None:
    router, policy = _cache_aware(max_tree_size=BUDGET)
    for number in range(20_000):
        _send(router, prompt("the same prompt", f"salt-{number}"))
    tree = policy.indexes["m"].texts.tree
    assert tree.size <= BUDGET * 9 // 8
    assert len(tree) <= BUDGET // CHARACTERS_PER_NODE * 9 // 8 + 2


def test_distinct_token_prompts_take_the_budget_and_no_more() -> None:
    router, policy = _cache_aware(max_tree_size=4096)
    for number in range(20_000):
        _send(router, tokens(*range(number, number + 16)))
    index = policy.indexes["m"]
    assert index.tokens.tree.size <= 4 * 4096 * 9 // 8
    assert len(index.texts.tree) == 0


def test_distinct_heads_of_a_hash_index_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router, policy = _cache_aware(cache_index="hash", cache_boundaries=(4,))
    _send(router, tokens(1, 2, 3, 4))
    heads = policy.indexes["m"].heads
    monkeypatch.setattr(heads, "_most", 1000)
    for number in range(20_000):
        _send(router, tokens(*range(number, number + 4)))
    assert len(heads) <= 1000


@pytest.mark.parametrize("name", ["round_robin", "manual"])
def test_a_million_distinct_routing_keys_leave_no_more_pins_than_the_limit(
    name: str,
) -> None:
    options = PolicyOptions(routing_key_override=True)
    router = Router(_registry(), RoutingOptions(name), options)
    [policy] = router.policies()
    assert isinstance(policy, StickyPolicy | ManualPolicy)
    policy.pins = Pins(most=10_000)
    headers = {KEY: b""}
    request = RoutingRequest("m", headers)
    for number in range(KEYS):
        headers[KEY] = b"%d" % number
        router.pick(request)
        router.release(request)
    assert 9_000 < len(policy.pins) <= 10_000
    assert policy.branches == {"vacant": KEYS}


@pytest.mark.parametrize("name", ["round_robin", "cache_aware", "manual"])
def test_keys_leave_nothing_at_workers_and_pins_are_limited_by_default(
    name: str,
) -> None:
    options = PolicyOptions(routing_key_override=True)
    registry = _registry()
    router = Router(registry, RoutingOptions(name), options)
    for number in range(20_000):
        _send(router, asked("m", {KEY: b"%d" % number}))
        _send(router, asked("m", rid=f"conv-{number}"))
    [policy] = router.policies()
    assert isinstance(policy, StickyPolicy | ManualPolicy)
    assert policy.pins._most * 64 <= 1_000_000
    assert len(policy.pins) == 40_000
    for worker in registry.all():
        assert (worker.active_keys, worker.load) == (0, 0)
        assert len(worker.selections) == 1


def test_keys_in_flight_whose_pins_were_pushed_out_are_released_all_the_same() -> None:
    options = PolicyOptions(routing_key_override=True)
    registry = _registry()
    router = Router(registry, RoutingOptions("round_robin"), options)
    [policy] = router.policies()
    assert isinstance(policy, StickyPolicy)
    policy.pins = Pins(most=64)
    running = [asked("m", {KEY: b"%d" % number}) for number in range(1000)]
    for request in running:
        router.pick(request)
    assert len(policy.pins) <= 64
    assert sum(one.active_keys for one in registry.all()) == 1000
    for request in running:
        router.release(request)
    assert [one.active_keys for one in registry.all()] == [0, 0, 0]


@pytest.mark.parametrize("name", ["consistent_hashing", "prefix_hash"])
def test_policies_that_hash_keys_remember_none(name: str) -> None:
    router = Router(_registry(), RoutingOptions(name))
    [policy] = router.policies()
    for number in range(20_000):
        _send(router, asked("m", {KEY: b"%d" % number}))
    assert len(getattr(policy, "_rings")._rings) == 1


def test_100_000_junk_model_names_leave_nothing_and_the_page_does_not_grow() -> None:
    registry, page = _registry(), Page()
    page.workers = registry.all()
    router = Router(registry, RoutingOptions("cache_aware"))
    [policy] = router.policies()
    assert isinstance(policy, CacheAwarePolicy)
    page.policies = [policy]

    def ask(model: str) -> None:
        """As dispatch counts a request and the error it ends in."""
        label = page.router.label(model, router.is_served(model))
        page.router.requests[label, "chat", False] += 1
        with pytest.raises(ModelNotFound):
            router.pick(asked(model, read_text=lambda: "x"))
        page.router.count_error(label, "chat", "no_workers")
        counted = page.http.of("POST", "/v1/chat/completions")
        counted.responses[404, "model_not_found"] += 1

    _send(router, prompt("x"))
    ask("first")
    lines = page.text().count("\n")
    for number in range(NAMES):
        ask(f"junk-{number}")
    assert page.text().count("\n") == lines
    assert "junk" not in page.text()
    assert len(router._pools) == 1
    assert list(policy.indexes) == ["m"]
    assert set(registry._ready or ()) == {"m", "unknown"}
