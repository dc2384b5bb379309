"""From a model's name to a worker, or to the right error."""

from __future__ import annotations

import pytest

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.catalog import POLICIES
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions

READY = WorkerState.READY


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def router(registry: Registry) -> Router:
    return Router(registry, RoutingOptions("round_robin"))


def _add(
    registry: Registry,
    name: str,
    model: str | None = "m",
    state: WorkerState = WorkerState.READY,
    aliases: tuple[str, ...] = (),
) -> Worker:
    worker = Worker(name, f"http://{name}:1")
    if model is not None:
        worker.models = [{"id": model, "aliases": list(aliases)}]
    worker.state = state
    registry.add(worker)
    return worker


def _pick(router: Router, model: str | None) -> Worker:
    return router.pick(RoutingRequest(model))


def test_cache_aware_is_the_policy_nobody_asked_for() -> None:
    assert RoutingOptions().policy == "cache_aware"


def test_workers_of_a_model_take_turns_in_order_of_registration(
    registry: Registry, router: Router
) -> None:
    workers = [_add(registry, name) for name in ("b", "a", "c")]
    assert [_pick(router, "m") for _ in range(6)] == workers * 2


def test_each_model_has_turns_of_its_own(registry: Registry, router: Router) -> None:
    first, second = _add(registry, "a"), _add(registry, "b")
    other = _add(registry, "c", model="n")
    picked = [_pick(router, model) for model in ("m", "n", "m", "n")]
    assert picked == [first, other, second, other]


def test_an_alias_is_as_good_as_the_model(registry: Registry, router: Router) -> None:
    worker = _add(registry, "a", aliases=("nick",))
    assert _pick(router, "nick") is worker


@pytest.mark.parametrize("model", [None, "unknown"])
def test_a_request_without_a_model_may_go_anywhere(
    registry: Registry, router: Router, model: str | None
) -> None:
    workers = [_add(registry, "a", "m"), _add(registry, "b", None)]
    assert [_pick(router, model) for _ in range(2)] == workers


@pytest.mark.parametrize("state", [one for one in WorkerState if one is not READY])
def test_only_ready_workers_are_picked(
    registry: Registry, router: Router, state: WorkerState
) -> None:
    _add(registry, "a", state=state)
    ready = _add(registry, "b")
    assert [_pick(router, "m") for _ in range(2)] == [ready, ready]


def test_a_model_nobody_serves_is_not_found(registry: Registry, router: Router) -> None:
    _add(registry, "a")
    with pytest.raises(ModelNotFound) as caught:
        _pick(router, "other")
    assert caught.value.status == 404
    assert caught.value.code == "model_not_found"
    assert caught.value.message == "No worker available for model 'other'"


@pytest.mark.parametrize("name", ["", "M", "m ", "m-alias2"])
def test_a_name_is_compared_as_it_is(
    registry: Registry, router: Router, name: str
) -> None:
    _add(registry, "a", aliases=("m-alias",))
    with pytest.raises(ModelNotFound) as refused:
        _pick(router, name)
    assert refused.value.message == f"No worker available for model '{name}'"


def test_an_empty_fleet_serves_no_model(router: Router) -> None:
    for model in ("m", None):
        with pytest.raises(ModelNotFound):
            _pick(router, model)


@pytest.mark.parametrize("model", ["m", None])
def test_a_model_whose_workers_are_down_is_unavailable(
    registry: Registry, router: Router, model: str | None
) -> None:
    _add(registry, "a", state=WorkerState.NOT_READY)
    with pytest.raises(NoAvailableWorkers) as caught:
        _pick(router, model)
    assert caught.value.status == 503
    assert caught.value.code == "no_available_workers"


def test_a_worker_that_comes_back_is_picked_again(
    registry: Registry, router: Router
) -> None:
    worker = _add(registry, "a")
    registry.set_state(worker, WorkerState.NOT_READY)
    with pytest.raises(NoAvailableWorkers):
        _pick(router, "m")
    registry.set_state(worker, WorkerState.READY)
    assert _pick(router, "m") is worker


def test_a_removed_worker_is_picked_no_more(registry: Registry, router: Router) -> None:
    gone, kept = _add(registry, "a"), _add(registry, "b")
    _pick(router, "m")
    registry.remove(gone)
    assert {_pick(router, "m") for _ in range(3)} == {kept}
    registry.remove(kept)
    with pytest.raises(ModelNotFound):
        _pick(router, "m")


def test_picks_are_counted_by_model_and_policy(
    registry: Registry, router: Router
) -> None:
    worker = _add(registry, "a")
    for model in ("m", "m", None):
        _pick(router, model)
    counts = {("m", "round_robin"): 2, ("unknown", "round_robin"): 1}
    assert worker.selections == counts


def test_names_that_clients_invent_leave_nothing_behind(
    registry: Registry, router: Router
) -> None:
    _add(registry, "a")
    for number in range(100):
        with pytest.raises(ModelNotFound):
            _pick(router, f"invented-{number}")
    assert len(router._pools) == 0
    assert set(registry._canonical or ()) == {"m", "unknown"}
    assert registry.is_served("m")
    assert set(registry._ready or ()) == {"m", "unknown"}


def test_policies_of_models_that_left_are_dropped(
    registry: Registry, router: Router
) -> None:
    for number in range(20):
        worker = _add(registry, f"w{number}", model=f"m{number}")
        _pick(router, f"m{number}")
        registry.remove(worker)
    _add(registry, "last", model="last")
    _pick(router, "last")
    assert len(router._pools) == len(router._labelled) == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_is_known_by_its_name(registry: Registry, policy: str) -> None:
    worker = _add(registry, "a")
    assert _pick(Router(registry, RoutingOptions(policy)), "m") is worker
    assert worker.selections == {("m", policy): 1}
