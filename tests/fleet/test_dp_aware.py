"""Engines whose data-parallel ranks are workers of their own."""

from __future__ import annotations

from typing import Any

import pytest

from smgproxy.fleet.fleet import AlreadyRegistered
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.spec import WorkerPatch, WorkerSpec
from smgproxy.fleet.worker import Worker, WorkerState
from tests.fakes.engine import sglang
from tests.fleet.test_fleet import A, Stage

LOADS = "/loads?model=m1"


class Ranks(Stage):
    """A fleet that makes a worker of each rank."""

    def engine(self, dp_size: Any = 2, url: str = A) -> None:
        """An engine of so many ranks."""
        table = sglang(**{"/server_info": {"dp_size": dp_size}})
        # An engine is asked by its URL, whichever rank is meant.
        for asked in (url, *(f"{url}@{rank}" for rank in range(4))):
            self.engines.tables[asked] = table

    def report(self, *waiting: int) -> None:
        """What the engine says about the load of each rank."""
        self.engines.tables[A][LOADS] = {
            "loads": [
                {"dp_rank": rank, "num_waiting_reqs": count}
                for rank, count in enumerate(waiting)
            ]
        }


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(monkeypatch, FleetOptions(dp_aware=True))


def ranks(it: Ranks) -> list[Worker]:
    return it.registry.all()


def test_each_rank_is_a_worker_and_the_first_has_the_promised_id(it: Ranks) -> None:
    it.engine(3)
    job = it.fleet.add(WorkerSpec(A, priority=7, resilience={"cb_timeout_secs": 5}))
    assert [one.url for one in ranks(it)] == [f"{A}@0", f"{A}@1", f"{A}@2"]
    assert [(one.dp_rank, one.dp_size) for one in ranks(it)] == [(0, 3), (1, 3), (2, 3)]
    assert ranks(it)[0].id == job.worker_id
    assert len({one.id for one in ranks(it)}) == 3
    for one in ranks(it):
        assert (one.host, one.port, one.is_ready) == ("a", 1, True)
        assert (one.priority, one.model_id) == (7, "m1")
        assert one.breaker.settings.timeout_secs == 5
    assert len({id(one.breaker) for one in ranks(it)}) == 3


def test_an_engine_joins_as_one_change_however_many_ranks_it_has(it: Ranks) -> None:
    seen: list[list[bool]] = []
    it.registry.watch(lambda: seen.append([one.is_ready for one in ranks(it)]))
    it.engine(3)
    it.fleet.add(WorkerSpec(A))
    assert seen == [[True] * 3]


def test_an_engine_of_one_rank_is_one_worker(it: Ranks) -> None:
    it.engine(1)
    it.fleet.add(WorkerSpec(A))
    assert [(one.url, one.dp_rank) for one in ranks(it)] == [(A, None)]


@pytest.mark.parametrize("size", [0, 1025, None, "x", True])
def test_an_sglang_engine_that_does_not_tell_its_ranks_is_not_registered(
    it: Ranks, size: Any
) -> None:
    it.engine(size)
    job = it.fleet.add(WorkerSpec(A))
    it.clock.advance(1)
    assert it.fleet.url_of(job.worker_id) == A
    it.clock.advance(1)
    assert it.engines.paths(A).count("/server_info") == 3
    assert ranks(it) == []
    assert "no dp_size of 1 to 1024" in (it.failure(job) or "")


def test_it_may_tell_them_a_little_later(it: Ranks) -> None:
    it.engine(None)
    it.fleet.add(WorkerSpec(A))
    it.engine(2)
    it.clock.advance(1)
    assert [one.labels["dp_size"] for one in ranks(it)] == ["2", "2"]


@pytest.mark.parametrize("runtime", ["vllm", "generic"])
def test_another_engine_that_tells_no_ranks_is_one_worker(
    it: Ranks, runtime: str
) -> None:
    it.engine(None)
    it.fleet.add(WorkerSpec(A, runtime_type=runtime))
    assert [(one.url, one.dp_rank) for one in ranks(it)] == [(A, None)]


def test_what_a_label_of_the_spec_says_makes_no_ranks(it: Ranks) -> None:
    it.engine(2)
    it.fleet.add(WorkerSpec(A, labels={"dp_size": "3"}))
    assert [one.dp_size for one in ranks(it)] == [2, 2]
    assert ranks(it)[0].labels["dp_size"] == "3"


def test_ranks_are_no_workers_unless_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Ranks(monkeypatch)
    it.engine(2)
    it.fleet.add(WorkerSpec(A))
    assert [one.url for one in ranks(it)] == [A]


def test_an_engine_is_registered_as_long_as_any_rank_is(it: Ranks) -> None:
    it.engine()
    job = it.fleet.add(WorkerSpec(A))
    it.fleet.remove(job.worker_id)
    it.clock.advance(5)
    assert [one.url for one in ranks(it)] == [f"{A}@1"]
    with pytest.raises(AlreadyRegistered):
        it.fleet.add(WorkerSpec(A))
    it.fleet.remove(ranks(it)[0].id)
    it.clock.advance(5)
    it.fleet.add(WorkerSpec(A))
    assert len(ranks(it)) == 2


def test_loads_are_asked_for_once_and_shared_out(it: Ranks) -> None:
    it.engine()
    it.report(1, 9)
    it.fleet.add(WorkerSpec(A))
    first, second = ranks(it)
    assert (first.load_polls, second.load_polls) == (1, 0)
    assert (first.is_overloaded, second.is_overloaded) == (False, True)
    assert (first.backlog.waiting, second.backlog.waiting) == (1, 9)


def test_loads_are_asked_for_through_any_rank_that_is_ready(it: Ranks) -> None:
    it.engine()
    it.report(1, 2)
    it.fleet.add(WorkerSpec(A))
    first, second = ranks(it)
    it.registry.set_state(first, WorkerState.NOT_READY)
    it.report(1, 5)
    it.clock.advance(10)
    assert (first.engine_load, second.backlog.waiting) == (None, 5)
    it.fleet.remove(first.id)
    it.report(0, 6)
    it.clock.advance(10)
    assert second.backlog.waiting == 6


def test_a_rank_that_is_not_in_the_report_has_none(it: Ranks) -> None:
    it.engine()
    it.report(3)
    it.fleet.add(WorkerSpec(A))
    assert [one.engine_load is None for one in ranks(it)] == [False, True]


def test_nothing_runs_on_when_the_last_rank_is_gone(it: Ranks) -> None:
    it.engine()
    it.fleet.add(WorkerSpec(A))
    for one in ranks(it):
        it.fleet.remove(one.id)
    it.clock.advance(100)
    assert it.background.running == 0


def test_all_ranks_came_of_one_job_as_long_as_any_is_left(it: Ranks) -> None:
    it.engine()
    job = it.fleet.add(WorkerSpec(A))
    first, second = ranks(it)
    assert it.fleet.came_of(job.worker_id) == [first, second]
    it.fleet.remove(first.id)
    it.clock.advance(5)
    assert it.fleet.came_of(job.worker_id) == [second]
    assert it.fleet.is_known(job.worker_id)
    assert it.fleet.came_of("nobody") == []


def test_a_change_of_one_rank_leaves_the_others_as_they_are(it: Ranks) -> None:
    it.engine()
    it.fleet.add(WorkerSpec(A))
    first, second = ranks(it)
    it.fleet.update(second.id, WorkerPatch(priority=7, labels={"zone": "b"}))
    assert (first.priority, second.priority) == (50, 7)
    assert "zone" not in first.labels


def test_each_rank_is_probed_and_judged_by_itself(it: Ranks) -> None:
    it.engine()
    it.fleet.add(WorkerSpec(A))
    first, second = ranks(it)
    assert (first.successes, second.successes) == (1, 1)
    for _ in range(10):
        first.breaker.note_failure(it.clock.now)
    assert not first.breaker.admits(it.clock.now)
    assert second.breaker.admits(it.clock.now)
