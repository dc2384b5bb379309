from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState


def ready(registry: Registry, url: str, *models: str, order: int = 0) -> Worker:
    worker = Worker(url, url)
    worker.models = [{"id": one} for one in models]
    worker.order = order
    registry.add(worker)
    registry.set_state(worker, WorkerState.READY)
    return worker


def test_a_slow_starter_takes_the_place_in_which_it_was_asked_for() -> None:
    registry = Registry()
    second = ready(registry, "http://b", "m", order=2)
    assert registry.candidates("m") == (second,)
    first = ready(registry, "http://a", "m", order=1)
    assert registry.candidates("m") == (first, second)


def test_every_model_of_every_worker_is_listed_once() -> None:
    registry = Registry()
    ready(registry, "http://a", "m1", "m2")
    ready(registry, "http://b", "m2", "m3")
    assert registry.models() == ["m1", "m2", "m3"]


def test_only_ready_workers_are_candidates_but_all_serve() -> None:
    registry = Registry()
    worker = ready(registry, "http://a", "m")
    registry.set_state(worker, WorkerState.NOT_READY)
    assert registry.candidates("m") == ()
    assert registry.is_served("m")
    registry.remove(worker)
    assert not registry.is_served("m")


def test_any_ready_worker_serves_a_request_without_a_model() -> None:
    registry = Registry()
    workers = (ready(registry, "http://a", "m"), ready(registry, "http://b", "n"))
    assert registry.candidates("unknown") == workers == registry.ready()


def test_a_name_is_for_the_card_that_has_it_as_its_id_else_the_first_as_an_alias() -> (
    None
):
    registry = Registry()
    assert registry.canonical("unknown") is None
    a, b = ready(registry, "http://a", "m"), ready(registry, "http://b", "n", "o")
    a.models[0]["aliases"] = ["short", "n"]
    b.models[0]["aliases"] = ["short", "own"]
    registry.changed()
    asked = ("m", "n", "o", "short", "own", "unknown", "junk")
    assert [registry.canonical(name) for name in asked] == (
        ["m", "n", "o", "m", "n", "unknown", None]
    )
    registry.remove(a)
    assert registry.canonical("short") == "n"
    registry.remove(b)
    assert registry.canonical("short") is None
