import pytest

from smgproxy.fleet.discovery import digest_of
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.spec import WorkerSpec
from tests.fakes.engine import sglang
from tests.fleet.discovered import A, B, C, Stage, want


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_what_is_wanted_is_added_and_what_is_not_is_drained(it: Stage) -> None:
    assert it.run(want(A), want(B))
    assert it.ready == [A, B]
    assert not it.run(want(A))  # B drains
    assert (it.ready, it.urls) == ([A], [A, B])
    it.clock.advance(5)
    assert it.run(want(A))
    assert it.urls == [A]


def test_nothing_wanted_removes_all_that_was_made(it: Stage) -> None:
    it.run(want(A), want(B))
    it.run()
    it.clock.advance(5)
    assert it.urls == []


def test_a_changed_worker_drains_before_it_is_registered_anew(it: Stage) -> None:
    it.run(want(A, "1"))
    [before] = it.registry.all()
    assert not it.run(want(A, "2", labels={"new": "yes"}))
    assert it.ready == []
    it.clock.advance(5)
    assert it.run(want(A, "2", labels={"new": "yes"}))
    [after] = it.registry.all()
    assert after.id != before.id
    assert after.labels["new"] == "yes"


def test_workers_of_others_are_not_touched(it: Stage) -> None:
    it.fleet.add(WorkerSpec(A))
    [other] = it.registry.all()
    assert it.run(want(A), want(B))
    it.run()
    it.clock.advance(5)
    assert it.registry.all() == [other]


def test_a_url_that_another_gave_up_is_taken_in_a_later_pass(it: Stage) -> None:
    job = it.fleet.add(WorkerSpec(A))
    it.run(want(A))
    it.fleet.remove(job.worker_id)
    it.clock.advance(5)
    it.run(want(A))
    assert it.ready == [A]


def test_a_worker_that_still_comes_up_is_left_to_a_later_pass(it: Stage) -> None:
    del it.engines.tables[A]
    assert it.run(want(A))
    assert not it.run()
    it.engines.tables[A] = sglang()
    it.clock.advance(1)
    assert it.urls == [A]
    assert not it.run()
    it.clock.advance(5)
    assert it.run()
    assert it.urls == []


def test_a_worker_removed_by_others_comes_back_with_the_next_pass(it: Stage) -> None:
    it.run(want(A))
    it.fleet.remove(it.registry.all()[0].id)
    it.clock.advance(5)
    it.run(want(A))
    assert it.ready == [A]


def test_a_worker_that_did_not_come_up_in_time_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(monkeypatch, FleetOptions(worker_startup_timeout_secs=3))
    del it.engines.tables[A]
    it.run(want(A))
    it.clock.advance(4)
    it.engines.tables[A] = sglang()
    it.run(want(A))
    assert it.ready == [A]


def test_two_names_for_one_url_are_one_worker(it: Stage) -> None:
    it.run(want(A, key="x"), want(A, key="y"))
    assert it.urls == [A]
    it.run(want(A, key="y"))
    it.clock.advance(5)
    it.run(want(A, key="y"))
    assert it.ready == [A]


def test_a_full_job_queue_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    options = FleetOptions(job_queue_capacity=1, job_queue_concurrency=1)
    it = Stage(monkeypatch, options)
    it.engines.tables.clear()
    assert not it.run(want(A), want(B), want(C))
    assert (it.stats.added, it.stats.not_added) == (2, 1)
    for url in (A, B, C):
        it.engines.tables[url] = sglang()
    it.clock.advance(2)
    assert it.run(want(A), want(B), want(C))
    assert it.ready == [A, B, C]


def test_a_pass_makes_so_many_changes_and_leaves_the_rest_to_the_next(
    it: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smgproxy.fleet.discovery.CHANGES_A_PASS", 2)
    assert not it.run(want(A), want(B), want(C))
    assert it.ready == [A, B]
    assert it.run(want(A), want(B), want(C))
    assert it.ready == [A, B, C]
    it.run()
    assert it.ready == [C]
    it.run()
    assert it.ready == []


def test_passes_that_changed_something_are_timed(it: Stage) -> None:
    it.run(want(A))
    it.run(want(A))
    it.run()
    assert len(it.passes) == 2
    assert (it.stats.wanted, it.stats.added, it.stats.removed) == (0, 1, 1)


def test_a_digest_does_not_depend_on_the_order_of_fields() -> None:
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of({"a": 1}) != digest_of({"a": 2})


def test_all_ranks_of_an_engine_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Stage(monkeypatch, FleetOptions(dp_aware=True))
    for url in (A, f"{A}@0", f"{A}@1"):
        it.engines.tables[url] = sglang(**{"/server_info": {"dp_size": 2}})
    it.run(want(A))
    assert it.ready == [f"{A}@0", f"{A}@1"]
    it.run()
    it.clock.advance(5)
    assert it.urls == []


def test_ranks_that_are_left_go_when_the_first_one_did_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(monkeypatch, FleetOptions(dp_aware=True))
    it.engines.tables[A] = sglang(**{"/server_info": {"dp_size": 2}})
    it.run(want(A))
    it.fleet.remove(it.registry.all()[0].id)
    it.clock.advance(5)
    it.run(want(A))
    assert it.ready == [f"{A}@1"]
    it.run()
    it.clock.advance(5)
    assert it.urls == []
