"""--model-fallback: what may be asked for, and who serves when."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers, OverloadShed
from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.shedding import Shedding
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.fallback import (
    MAX_CHAINS,
    MAX_FALLBACKS,
    NOBODY,
    Chain,
    FallbackOptions,
    Way,
    parse_chain,
    pick_along,
)
from smgproxy.routing.request import RoutingRequest
from smgproxy.routing.router import Router, RoutingOptions

NONE: frozenset[Worker] = frozenset()

# -- what may be asked for -----------------------------------------------------------


def test_a_chain_is_a_model_and_its_fallbacks_in_order() -> None:
    assert parse_chain("a=c,b") == Chain("a", ("c", "b"))
    # Names of models have slashes and colons, and may have an equals sign.
    assert parse_chain("org/a:1=b=c") == Chain("org/a:1", ("b=c",))
    options = FallbackOptions((parse_chain("a=c,b"), parse_chain("d=b")))
    assert options.chains() == {"a": ("c", "b"), "d": ("b",)}


@pytest.mark.parametrize("text", ["", "a", "=b", "a=", "a=b,", "a=,b", "a=b,,c"])
def test_no_name_may_be_missing(text: str) -> None:
    with pytest.raises(ValueError, match="must be MODEL=FALLBACK,FALLBACK"):
        parse_chain(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a=b,a", "'a' falls back to itself; leave that out"),
        ("a=b,c,b", "'a' names 'b' twice; once is all"),
        ("unknown=b", "'unknown' stands for any model"),
        ("a=unknown", "'unknown' is no model"),
        ("a=b c", "'b c' must be visible ASCII"),
        ("a=b\r\nx: y", "must be visible ASCII"),
        ("a=\xe4", "must be visible ASCII"),
        (f"a={'b' * 257}", "longer than 256 characters"),
    ],
)
def test_a_name_that_cannot_serve_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_chain(text)


def test_chains_are_of_limited_length_and_number() -> None:
    names = [f"m{n}" for n in range(MAX_FALLBACKS + 1)]
    parse_chain("a=" + ",".join(names[1:]))
    with pytest.raises(ValueError, match="'a' has 9 fallbacks, at most 8 may be given"):
        parse_chain("a=" + ",".join(names))
    chains = tuple(Chain(f"m{n}", ("x",)) for n in range(MAX_CHAINS + 1))
    FallbackOptions(chains[1:])
    with pytest.raises(ValueError, match="^--model-fallback: 129 models are given"):
        FallbackOptions(chains)


def test_a_model_has_one_chain() -> None:
    FallbackOptions((Chain("a", ("b",)), Chain("a", ("b",))))
    with pytest.raises(ValueError, match="^--model-fallback: 'a' has two chains"):
        FallbackOptions((Chain("a", ("b",)), Chain("a", ("c",))))


def test_two_models_may_stand_in_for_each_other() -> None:
    options = FallbackOptions((Chain("a", ("b",)), Chain("b", ("a",))))
    assert options.chains() == {"a": ("b",), "b": ("a",)}


@pytest.mark.parametrize("chain", [Chain("short", ("b",)), Chain("a", ("b", "short"))])
def test_an_alias_is_no_name_of_a_chain(chain: Chain) -> None:
    with pytest.raises(
        ValueError,
        match="^--model-fallback: 'short' is a --model-alias; name the model it stands "
        "for, 'long'",
    ):
        FallbackOptions((chain,)).check({"short": "long"})
    FallbackOptions((chain,)).check({"other": "long"})


# -- who serves ----------------------------------------------------------------------


class Fleet:
    """A worker for each model a, b and c, and the way of one request along them."""

    def __init__(self, models: str = "abc", sheds: bool = False) -> None:
        self.registry = Registry()
        options = RoutingOptions("round_robin")
        self.router = Router(self.registry, options, shedding=Shedding(sheds))
        self.forbidden: set[str] = set()
        self.routed = RoutingRequest("a")
        self.way = self.begin(self.routed)
        for model in models:
            self.add(model, model)

    def begin(self, routed: RoutingRequest) -> Way:
        def may_serve(name: str) -> bool:
            return name not in self.forbidden

        return Way(("a", "b", "c"), self.router, routed, may_serve)

    def add(self, name: str, model: str) -> Worker:
        worker = Worker(name, f"http://{name}:1")
        worker.models = [{"id": model}]
        worker.state = WorkerState.READY
        worker.breaker.settings = BreakerSettings(failure_threshold=1)
        self.registry.add(worker)
        return worker

    def worker(self, name: str) -> Worker:
        found = self.registry.get(name)
        assert found is not None
        return found

    def serves(self, excluded: str = "", failed: str = "") -> str:
        """The worker that is picked, and let go of again."""
        worker = self.way.pick(
            frozenset(map(self.worker, excluded)), set(map(self.worker, failed))
        )
        self.router.release(self.routed)
        assert worker.serves(self.routed.name)
        return worker.id


def _absent(fleet: Fleet, name: str) -> None:
    fleet.registry.remove(fleet.worker(name))


def _unhealthy(fleet: Fleet, name: str) -> None:
    fleet.registry.set_state(fleet.worker(name), WorkerState.NOT_READY)


def _draining(fleet: Fleet, name: str) -> None:
    fleet.registry.set_state(fleet.worker(name), WorkerState.DRAINING)


def _broken(fleet: Fleet, name: str) -> None:
    fleet.worker(name).breaker.note_failure(0)


AWAY = (_absent, _unhealthy, _draining, _broken)


def test_the_model_asked_for_serves_while_it_can() -> None:
    fleet = Fleet()
    assert [fleet.serves() for _ in range(3)] == ["a", "a", "a"]
    assert fleet.routed.name == "a"


@pytest.mark.parametrize("away", AWAY)
def test_the_first_fallback_that_can_serves_while_it_cannot(away: object) -> None:
    assert callable(away)
    fleet = Fleet()
    away(fleet, "a")
    assert fleet.serves() == "b"
    assert fleet.routed.model == "b"
    away(fleet, "b")
    assert fleet.serves() == "c"


def test_one_worker_that_can_is_enough_for_its_model() -> None:
    fleet = Fleet()
    fleet.add("a2", "a")
    _unhealthy(fleet, "a")
    assert fleet.serves() == "a2"


def test_the_model_asked_for_serves_again_as_soon_as_it_can() -> None:
    fleet = Fleet()
    _broken(fleet, "a")
    assert fleet.serves() == "b"
    fleet.routed.now = fleet.worker("a").breaker.reopens_at
    assert fleet.serves() == "a"


def test_a_model_that_no_worker_ever_served_may_have_fallbacks() -> None:
    assert Fleet("c").serves() == "c"


@pytest.mark.parametrize("away", AWAY[1:])
def test_the_error_is_that_of_the_model_asked_for(away: object) -> None:
    assert callable(away)
    fleet = Fleet("a")
    away(fleet, "a")
    with pytest.raises(NoAvailableWorkers):
        fleet.serves()
    assert fleet.worker("a").load == 0
    with pytest.raises(ModelNotFound, match="'a'"):
        Fleet("").serves()
    other = Fleet("bc")
    for name in "bc":
        away(other, name)
    with pytest.raises(ModelNotFound, match="'a'"):
        other.serves()


def test_who_may_not_use_a_fallback_is_passed_on_or_refused() -> None:
    fleet = Fleet()
    _unhealthy(fleet, "a")
    fleet.forbidden = {"b"}
    assert fleet.serves() == "c"
    fleet.forbidden = {"b", "c"}
    with pytest.raises(NoAvailableWorkers):
        fleet.serves()
    assert not fleet.way.has_other(NONE)


def _overload(fleet: Fleet, name: str) -> None:
    fleet.registry.set_overloaded(fleet.worker(name), True)


def test_overload_is_shed_and_not_handed_on() -> None:
    fleet = Fleet(sheds=True)
    _overload(fleet, "a")
    with pytest.raises(OverloadShed):
        fleet.serves()


def test_without_limits_the_overloaded_worker_serves() -> None:
    fleet = Fleet()
    _overload(fleet, "a")
    assert fleet.serves() == "a"


@pytest.mark.parametrize("sheds", [False, True])
def test_with_some_away_and_the_others_overloaded_a_fallback_serves(
    sheds: bool,
) -> None:
    fleet = Fleet(sheds=sheds)
    fleet.add("a2", "a")
    _overload(fleet, "a")
    _unhealthy(fleet, "a2")
    assert fleet.serves() == "b"


def test_a_fallback_that_sheds_is_passed_over() -> None:
    fleet = Fleet(sheds=True)
    _unhealthy(fleet, "a")
    _overload(fleet, "b")
    assert fleet.serves() == "c"
    _overload(fleet, "c")
    with pytest.raises(NoAvailableWorkers):
        fleet.serves()


def test_a_client_that_asks_for_a_worker_there_is_not_gets_no_other_model() -> None:
    fleet = Fleet()
    fleet.router = Router(fleet.registry, RoutingOptions("consistent_hashing"))
    fleet.routed = RoutingRequest("a", {b"x-smg-target-worker": b"7"})
    fleet.way = fleet.begin(fleet.routed)
    with pytest.raises(NoAvailableWorkers):
        fleet.serves()


# -- behind attempts that failed -----------------------------------------------------


def test_a_worker_at_which_the_request_failed_is_as_good_as_away() -> None:
    fleet = Fleet()
    fleet.add("d", "a")
    assert fleet.serves(failed="a") == "d"
    assert fleet.serves(failed="ad") == "b"
    assert fleet.serves(failed="adb") == "c"


def test_it_is_asked_again_when_nobody_else_is_left() -> None:
    fleet = Fleet("a")
    assert fleet.serves(failed="a") == "a"


def test_an_excluded_worker_never_comes_again() -> None:
    fleet = Fleet("ab")
    assert fleet.serves(excluded="a") == "b"
    assert fleet.serves(excluded="a", failed="ab") == "b"
    with pytest.raises(NoAvailableWorkers):
        fleet.serves(excluded="ab", failed="ab")


def test_there_is_another_as_long_as_any_model_of_the_chain_has_one() -> None:
    fleet = Fleet("ab")
    a, b = fleet.worker("a"), fleet.worker("b")
    assert fleet.way.has_other(NONE)
    assert fleet.way.has_other(frozenset((a,)))
    assert not fleet.way.has_other(frozenset((a, b)))


@given(st.sets(st.sampled_from("abc")), st.sets(st.sampled_from("bc")))
def test_whatever_is_away_the_first_one_left_serves(
    away: set[str], forbidden: set[str]
) -> None:
    worker = Worker("w", "http://w:1")
    asked: list[str] = []

    def pick(name: str) -> Worker:
        asked.append(name)
        if name in away:
            raise ModelNotFound(name)
        return worker

    def run() -> str:
        return pick_along(
            ("a", "b", "c"), pick, lambda name: name not in forbidden, lambda e: False
        )[0]

    left = [one for one in "abc" if one not in away and one not in forbidden]
    if left:
        assert run() == left[0]
    else:
        with pytest.raises(NOBODY) as refused:
            run()
        assert "'a'" in str(refused.value)
    assert not forbidden & set(asked)
