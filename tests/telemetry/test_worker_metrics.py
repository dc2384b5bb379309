"""Counters of workers, from scrape to scrape: they never fall, and never grow wild."""

from __future__ import annotations

from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.telemetry.stats import MAX_MODELS
from smgproxy.telemetry.worker_metrics import WorkerFamilies

SELECTION = "smg_worker_selection_total"


def worker(url: str, model: str = "m") -> Worker:
    one = Worker("id", url)
    one.models = [{"id": model}]
    one.state = WorkerState.READY
    one.selections[model, "random"] = 10
    return one


def scrape(
    families: WorkerFamilies, workers: list[Worker], name: str
) -> dict[tuple[str, ...], float]:
    """The samples of one name, by their label values in the contract's order."""
    return {
        tuple(sample.labels.values()): sample.value
        for family in families.collect(workers)
        for sample in family.metric().samples
        if sample.name == name
    }


def selected(families: WorkerFamilies, workers: list[Worker]) -> float:
    return sum(scrape(families, workers, SELECTION).values())


def test_a_family_that_names_no_worker_keeps_what_removed_ones_counted() -> None:
    families, one, other = WorkerFamilies(), worker("http://a"), worker("http://b")
    one.backend_errors, one.failures = 3, 4
    assert selected(families, [one, other]) == 20
    for _ in range(2):  # once, not once a scrape
        assert selected(families, [other]) == 20
    errors = scrape(families, [other], "smg_worker_errors_total")
    assert errors["regular", "http", "backend_error"] == 3
    checks = scrape(families, [other], "smg_worker_health_checks_total")
    assert checks["regular", "failure"] == 4


def test_a_removed_worker_counts_on_until_its_last_exchange_is_over() -> None:
    families, one = WorkerFamilies(), worker("http://a")
    one.load = 1
    selected(families, [one])
    one.timeouts = 1
    for load in (1, 0, 0):
        one.load = load
        errors = scrape(families, [], "smg_worker_errors_total")
        assert errors["regular", "http", "timeout"] == 1


def test_the_same_url_registered_again_adds_to_what_was() -> None:
    families = WorkerFamilies()
    selected(families, [worker("http://a")])
    assert selected(families, [worker("http://a")]) == 20


def test_the_pool_of_a_model_whose_last_worker_left_is_0_and_not_missing() -> None:
    families = WorkerFamilies()
    scrape(families, [worker("http://a", "m"), worker("http://b", "n")], "")
    sizes = scrape(families, [worker("http://b", "n")], "smg_worker_pool_size")
    assert sizes == {("regular", "http", "m"): 0, ("regular", "http", "n"): 1}


def test_models_that_come_and_go_do_not_add_series_without_bound() -> None:
    families, each = WorkerFamilies(), 100
    for start in range(0, 3 * MAX_MODELS, each):
        fleet = [worker("http://a", f"m{start + i}") for i in range(each)]
        found = scrape(families, fleet, SELECTION)
        assert sum(found.values()) == 10 * (start + each)
        assert len(found) <= MAX_MODELS + 1
        sizes = scrape(families, fleet, "smg_worker_pool_size")
        assert len(sizes) <= MAX_MODELS + each


def test_health_is_1_only_for_a_ready_worker() -> None:
    families = WorkerFamilies()
    for state in WorkerState:
        one = worker("http://a")
        one.state = state
        found = scrape(families, [one], "smg_worker_health")
        assert found == {("http://a",): int(state is WorkerState.READY)}


def test_a_fresh_worker_has_its_counters_at_0() -> None:
    families, one = WorkerFamilies(), Worker("id", "http://a")
    for name in ("smg_worker_errors_total", "smg_worker_health_checks_total"):
        assert list(scrape(families, [one], name).values()) == [0, 0]
    polls = scrape(families, [one], "smg_engine_load_polls_total")
    assert polls == {("http://a", "poll"): 0}
    sizes = scrape(families, [one], "smg_worker_pool_size")
    assert sizes == {("regular", "http", "unknown"): 1}


def test_overloaded_workers_are_counted_by_model_and_the_last_one_leaves_0() -> None:
    families, one, other = WorkerFamilies(), worker("http://a"), worker("http://b")
    one.is_overloaded = True
    name = "smg_workers_overloaded"
    assert scrape(families, [one, other], name) == {("m",): 1}
    assert scrape(families, [], name) == {("m",): 0}


def test_which_workers_are_spoken_to_by_http2_is_shown() -> None:
    one, other = worker("http://a"), worker("http://b")
    other.http2 = True
    shown = scrape(WorkerFamilies(), [one, other], "smg_worker_http2")
    assert shown == {("http://a",): 0, ("http://b",): 1}
