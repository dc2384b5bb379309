"""Who is available: breakers, overload, exclusions, labels and what is charged."""

from __future__ import annotations

import pytest

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers, OverloadShed
from smgproxy.fleet.breaker import BreakerSettings, BreakerState
from smgproxy.fleet.overload import OverloadLimits
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.shedding import Shedding
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.catalog import POLICIES
from smgproxy.routing.options import PolicyOptions
from smgproxy.routing.policies.cache_aware import CacheAwarePolicy
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions
from smgproxy.routing.sticky import StickyPolicy
from tests.routing.fleet import KEY, asked

ROUND_ROBIN = RoutingOptions("round_robin")


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def router(registry: Registry) -> Router:
    return Router(registry, ROUND_ROBIN)


def _add(registry: Registry, name: str, model: str = "m", label: str = "") -> Worker:
    worker = Worker(name, f"http://{name}:1")
    worker.models = [{"id": model, "aliases": [f"{model}-alias"]}]
    worker.labels = {"policy": label} if label else {}
    worker.state = WorkerState.READY
    worker.order = len(registry)
    worker.breaker.settings = BreakerSettings(failure_threshold=1, success_threshold=1)
    registry.add(worker)
    return worker


def _state(worker: Worker) -> BreakerState:
    return worker.breaker.state


def _pick(router: Router, now: float = 0, model: str = "m") -> Worker:
    return router.pick(RoutingRequest(model, now=now))


def test_an_open_breaker_keeps_its_worker_out(
    registry: Registry, router: Router
) -> None:
    a, b = _add(registry, "a"), _add(registry, "b")
    a.breaker.note_failure(0)
    assert [_pick(router, 1) for _ in range(3)] == [b, b, b]


def test_a_breaker_becomes_half_open_when_a_pick_looks_at_it(
    registry: Registry, router: Router
) -> None:
    a = _add(registry, "a")
    other = _add(registry, "x", model="other")
    for worker in (a, other):
        worker.breaker.note_failure(0)
    with pytest.raises(NoAvailableWorkers):
        _pick(router, 59)
    assert _state(a) == BreakerState.OPEN
    assert _pick(router, 60) is a
    assert _state(a) == BreakerState.HALF_OPEN
    # Nobody asked for the other model: its gauge still says open.
    assert _state(other) == BreakerState.OPEN
    a.breaker.note_success()
    assert _pick(router, 61) is a


def test_all_breakers_open_is_503_at_once_and_an_unknown_model_404(
    registry: Registry, router: Router
) -> None:
    _add(registry, "a").breaker.note_failure(0)
    with pytest.raises(NoAvailableWorkers) as caught:
        _pick(router, 1)
    assert dict(caught.value.headers)[b"retry-after"] == b"1"
    with pytest.raises(ModelNotFound):
        _pick(router, 1, "M")


def test_a_pick_looks_at_the_breakers_only_when_something_changed(
    registry: Registry, router: Router
) -> None:
    _add(registry, "a")
    _pick(router)
    pool = router._pools["m"]
    _pick(router, 1e6)
    assert router._pools["m"] is pool


def test_an_overloaded_worker_is_invisible(registry: Registry, router: Router) -> None:
    a, b = _add(registry, "a"), _add(registry, "b")
    registry.set_overloaded(a, True)
    assert [_pick(router) for _ in range(2)] == [b, b]
    registry.set_overloaded(a, False)
    assert {_pick(router) for _ in range(2)} == {a, b}


def test_when_all_are_overloaded_the_least_loaded_serves(registry: Registry) -> None:
    shedding = Shedding()
    router = Router(registry, ROUND_ROBIN, shedding=shedding)
    a, b = _add(registry, "a"), _add(registry, "b")
    a.load = 3
    for worker in (a, b):
        registry.set_overloaded(worker, True)
    assert _pick(router) is b
    assert shedding.fallbacks == 1


def test_when_all_are_overloaded_it_is_shed_if_that_was_asked_for(
    registry: Registry,
) -> None:
    shedding = Shedding(True, 10)
    router = Router(registry, ROUND_ROBIN, shedding=shedding)
    registry.set_overloaded(_add(registry, "a"), True)
    with pytest.raises(OverloadShed) as caught:
        _pick(router)
    assert (caught.value.status, caught.value.code) == (
        503,
        "worker_overload_protection_shed",
    )
    assert caught.value.message == "All workers for model 'm' are overloaded"
    assert dict(caught.value.headers)[b"retry-after"] == b"10"
    assert caught.value.stage == "selection"


def test_a_worker_with_limits_of_its_own_is_asking_for_shedding(
    registry: Registry, router: Router
) -> None:
    a = _add(registry, "a")
    a.overload = OverloadLimits(2, 0.5)
    registry.set_overloaded(a, True)
    with pytest.raises(OverloadShed):
        _pick(router)


@pytest.mark.parametrize("sheds", [False, True])
def test_some_overloaded_and_the_rest_down_is_plain_unavailable(
    registry: Registry, sheds: bool
) -> None:
    router = Router(registry, ROUND_ROBIN, shedding=Shedding(sheds))
    registry.set_overloaded(_add(registry, "a"), True)
    b = _add(registry, "b")
    b.breaker.note_failure(0)
    with pytest.raises(NoAvailableWorkers):
        _pick(router, 1)
    b.breaker.note_health_returned()
    registry.set_state(b, WorkerState.NOT_READY)
    with pytest.raises(NoAvailableWorkers):
        _pick(router, 1)


def test_excluded_workers_are_not_picked_again(
    registry: Registry, router: Router
) -> None:
    a, b = _add(registry, "a"), _add(registry, "b")
    request = RoutingRequest("m")
    request.excluded = frozenset((a,))
    assert router.has_other(request)
    assert router.pick(request) is b
    router.release(request)
    request.excluded = frozenset((a, b))
    assert not router.has_other(request)
    with pytest.raises(NoAvailableWorkers):
        router.pick(request)
    assert not router.has_other(RoutingRequest("nobody"))


def test_a_pick_is_charged_in_the_same_step(registry: Registry) -> None:
    """Or a burst would all land on one worker."""
    router = Router(registry, ROUND_ROBIN, PolicyOptions(routing_key_override=True))
    a = _add(registry, "a")
    requests = [RoutingRequest("m", {KEY: b"k"}) for _ in range(3)]
    for request in requests:
        router.pick(request)
    assert (a.load, a.active_keys, a.backlog.sent) == (3, 1, 3)
    for request in requests:
        router.release(request)
    assert (a.load, a.active_keys) == (0, 0)
    # The credit for what was sent stays until a report counts it.
    assert a.backlog.sent == 3


@pytest.mark.parametrize(
    "policy", ["cache_aware", "least_load", "power_of_two", "round_robin", "random"]
)
def test_a_burst_does_not_land_on_one_worker(registry: Registry, policy: str) -> None:
    fleet = [_add(registry, name) for name in "abcd"]
    router = Router(registry, RoutingOptions(policy))
    for number in range(200):
        router.pick(asked("m", read_text=lambda: f"{number} is another prompt"))
    assert all(25 < one.load < 80 for one in fleet)
    if policy in ("cache_aware", "least_load", "round_robin"):
        assert [one.load for one in fleet] == [50] * 4


@pytest.mark.parametrize("policy", sorted(set(POLICIES) - {"consistent_hashing"}))
def test_a_target_is_nothing_to_other_policies(registry: Registry, policy: str) -> None:
    a = _add(registry, "a")
    bad = {b"x-smg-target-worker": b"9"}
    router = Router(registry, RoutingOptions(policy))
    assert router.pick(RoutingRequest("m", bad)) is a


@pytest.mark.parametrize("value, place", [(b"1", 1), (b"", 0), (b"x", None)])
def test_a_bad_target_is_503_and_an_empty_one_is_none(
    registry: Registry, value: bytes, place: int | None
) -> None:
    fleet = _add(registry, "a"), _add(registry, "b")
    router = Router(registry, RoutingOptions("consistent_hashing"))
    asked_for = RoutingRequest("m", {b"x-smg-target-worker": value})
    if place is None:
        with pytest.raises(NoAvailableWorkers) as refused:
            router.pick(asked_for)
        assert refused.value.status == 503
    else:
        assert router.pick(asked_for) in (fleet if not value else fleet[place:])


def test_an_alias_stands_for_the_model_of_its_first_card(
    registry: Registry, router: Router
) -> None:
    a, b = _add(registry, "a"), _add(registry, "b")
    b.models = [{"id": "m"}]
    registry.changed()
    request = RoutingRequest("m-alias")
    assert router.pick(request) is a
    assert request.model == "m"
    assert router.pick(RoutingRequest("m-alias")) is b
    assert a.selections == {("m", "round_robin"): 1}


def test_a_request_without_a_model_shares_the_only_models_index(
    registry: Registry,
) -> None:
    _add(registry, "a")
    router = Router(registry, RoutingOptions("cache_aware"))
    nameless = RoutingRequest(None)
    router.pick(nameless)
    assert nameless.model == "m"
    _add(registry, "b", model="n")
    nameless = RoutingRequest(None)
    router.pick(nameless)
    assert nameless.model == "unknown"


def test_a_request_without_a_model_goes_to_the_workers_of_all_models(
    registry: Registry, router: Router
) -> None:
    fleet = [_add(registry, "a"), _add(registry, "b", model="n")]
    picked = [router.pick(RoutingRequest(None)) for _ in range(4)]
    assert picked == fleet * 2


def test_an_open_breaker_leaves_the_workers_state_alone(
    registry: Registry, router: Router
) -> None:
    a = _add(registry, "a")
    a.breaker.note_failure(0)
    assert a.is_ready
    assert registry.ready() == (a,)


# -- a policy of its own for a model ----------------------------------------------


def test_the_first_workers_label_gives_its_model_a_policy(
    registry: Registry, router: Router
) -> None:
    a = _add(registry, "a", label="passthrough")
    _add(registry, "b", label="random")
    other = [_add(registry, name, model="n") for name in ("c", "d")]
    assert [_pick(router) for _ in range(3)] == [a] * 3
    assert a.selections == {("m", "passthrough"): 3}
    assert [_pick(router, model="n") for _ in range(2)] == other


def test_a_label_counts_until_the_models_last_worker_left(
    registry: Registry, router: Router
) -> None:
    a = _add(registry, "a", label="passthrough")
    b = _add(registry, "b")
    registry.remove(a)
    assert _pick(router) is b
    assert b.selections == {("m", "passthrough"): 1}
    registry.remove(b)
    with pytest.raises(ModelNotFound):
        _pick(router)
    c = _add(registry, "c")
    assert _pick(router) is c
    assert c.selections == {("m", "round_robin"): 1}


def test_an_unknown_label_is_ignored(registry: Registry, router: Router) -> None:
    a = _add(registry, "a", label="best")
    _pick(router)
    assert a.selections == {("m", "round_robin"): 1}


def test_a_label_may_make_the_router_read_text(
    registry: Registry, router: Router
) -> None:
    _add(registry, "a")
    assert not router.reads_text
    _add(registry, "b", model="n", label="cache_aware")
    assert router.reads_text


def test_a_worker_that_left_is_forgotten_by_every_policy(registry: Registry) -> None:
    router = Router(registry, RoutingOptions("cache_aware"))
    a, _ = _add(registry, "a"), _add(registry, "b")
    for number in range(20):
        router.pick(asked("m", read_text=f"{number} prompt".lower))
    policy = router.policies()[0]
    assert isinstance(policy, CacheAwarePolicy)
    index = policy.indexes["m"].texts
    assert index.workers == 2
    registry.remove(a)
    assert not router.sweep(0)
    assert index.workers == 1
    registry.remove(registry.all()[0])
    router.sweep(0)
    assert not policy.indexes


def test_what_is_over_its_budget_is_cleared_every_interval_until_it_is_within(
    registry: Registry,
) -> None:
    options = PolicyOptions(max_tree_size=64, eviction_interval_secs=10)
    router = Router(registry, RoutingOptions("cache_aware"), options)
    _add(registry, "a")
    [policy] = router.policies()
    assert isinstance(policy, CacheAwarePolicy)

    def grow() -> int:
        for number in range(8):
            router.pick(asked("m", read_text=lambda: f"{number} prompt."))
        return policy.indexes["m"].texts.tree.size

    assert not router.sweep(100)
    assert grow() > 64
    assert not router.sweep(109.9)
    assert policy.indexes["m"].texts.tree.size > 64
    assert not router.sweep(110)
    assert policy.indexes["m"].texts.tree.size <= 64
    assert grow() > 64
    assert not router.sweep(119.9)
    assert policy.indexes["m"].texts.tree.size > 64


def test_keys_grow_too_old_by_the_interval_and_never_at_0(registry: Registry) -> None:
    _add(registry, "a")
    for secs, left in ((5, 0), (0, 1)):
        options = PolicyOptions(
            routing_key_override=True, eviction_interval_secs=secs, max_idle_secs=3
        )
        router = Router(registry, ROUND_ROBIN, options)
        router.sweep(0)
        router.release(_asked_with_key(router))
        router.sweep(4.9)
        [policy] = router.policies()
        assert isinstance(policy, StickyPolicy)
        assert len(policy.pins) == 1
        router.sweep(1000)
        assert len(policy.pins) == left


def _asked_with_key(router: Router) -> RoutingRequest:
    request = RoutingRequest("m", {KEY: b"k"})
    router.pick(request)
    return request


@pytest.mark.parametrize(
    ("policy", "sheds", "is_needed"),
    [
        ("round_robin", False, False),
        ("round_robin", True, True),
        ("least_load", False, True),
        ("cache_aware", False, True),
        ("power_of_two", False, True),
    ],
)
def test_loads_are_read_by_policies_that_compare_them_and_by_shedding(
    policy: str, sheds: bool, is_needed: bool
) -> None:
    router = Router(Registry(), RoutingOptions(policy), shedding=Shedding(sheds))
    assert router.reads_loads is is_needed
