"""Who gets a session: labelled, ready, least loaded, by turns."""

from __future__ import annotations

import pytest

from smgproxy.core.errors import ModelNotFound, NoAvailableWorkers
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from smgproxy.routing.labelled import LabelledRouter


def _worker(number: int, model: str = "m", label: str | None = "true") -> Worker:
    worker = Worker(f"w{number}", f"http://w{number}:1")
    worker.models = [{"id": model, "aliases": [f"{model}-alias"]}]
    worker.labels = {} if label is None else {"realtime": label}
    worker.state = WorkerState.READY
    worker.order = number
    return worker


def _router(*workers: Worker) -> LabelledRouter:
    registry = Registry()
    for worker in workers:
        registry.add(worker)
    return LabelledRouter(registry)


def test_only_a_label_of_true_counts() -> None:
    labelled = _worker(3)
    router = _router(_worker(1, label=None), _worker(2, label="false"), labelled)
    assert {router.pick("m", 0.0) for _ in range(4)} == {labelled}


def test_the_least_loaded_is_picked_and_equals_take_turns() -> None:
    workers = [_worker(number) for number in range(3)]
    router = _router(*workers)
    for _ in range(6):
        router.pick("m", 0.0)
    assert [one.load for one in workers] == [2, 2, 2]
    router.release(workers[1])
    assert router.pick("m", 0.0) is workers[1]


def test_an_alias_finds_the_models_workers() -> None:
    worker = _worker(1)
    assert _router(worker).pick("m-alias", 0.0) is worker


@pytest.mark.parametrize("model", ["nobody", "plain"])
def test_a_model_without_a_labelled_worker_is_not_found(model: str) -> None:
    router = _router(_worker(1), _worker(2, "plain", label=None))
    with pytest.raises(ModelNotFound):
        router.pick(model, 0.0)


def test_labelled_workers_that_are_down_or_cut_off_are_unavailable() -> None:
    down, broken = _worker(1), _worker(2)
    down.state = WorkerState.NOT_READY
    router = _router(down, broken)
    for _ in range(broken.breaker.settings.failure_threshold):
        broken.breaker.note_failure(0.0)
    with pytest.raises(NoAvailableWorkers):
        router.pick("m", 0.0)


def test_an_overloaded_worker_is_taken_only_when_all_are() -> None:
    busy, free = _worker(1), _worker(2)
    busy.is_overloaded = True
    router = _router(busy, free)
    assert {router.pick("m", 0.0) for _ in range(3)} == {free}
    free.is_overloaded = True
    assert router.pick("m", 0.0) is busy
