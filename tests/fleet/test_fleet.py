from typing import Any

import pytest

from smgproxy.fleet.breaker import BreakerSettings
from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.fleet import (
    AlreadyRegistered,
    BeingRegistered,
    Fleet,
    UnknownWorker,
)
from smgproxy.fleet.jobs import Job, QueueFull
from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.spec import WorkerPatch, WorkerSpec
from smgproxy.fleet.worker import HttpPoolSettings, Worker, WorkerState
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines, sglang

A, B = "http://a:1", "http://b:1"


class Stage:
    """A fleet whose clock, engines and background are the test's."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        options: FleetOptions = FleetOptions(),
        **more: Any,
    ) -> None:
        self.clock = FakeClock()
        self.clock.stand_in(patch, "smgproxy.fleet.registration", "smgproxy.fleet.jobs")
        self.background = FakeBackground(self.clock)
        self.engines = FakeEngines()
        self.removed: list[str] = []
        self.registry = Registry()
        self.fleet = Fleet(
            self.registry,
            options,
            self.engines.fetch,
            self.background.spawn,
            lambda worker: self.removed.append(worker.url),
            sleep=self.background.sleep,
            http_pool=HttpPoolSettings(timeout_secs=77),
            **more,
        )

    def add(self, url: str = A, **more: object) -> Worker:
        """A registered worker of an engine that answers."""
        self.engines.tables[url] = sglang()
        job = self.fleet.add(WorkerSpec(url, **more))  # type: ignore[arg-type]
        worker = self.registry.get(job.worker_id)
        assert worker is not None
        return worker

    def failure(self, job: Job) -> str | None:
        """Why a job failed, as GET /workers/{id} would show it."""
        shown = self.fleet.latest_job(job.worker_id)
        return None if shown is None else shown.message


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(monkeypatch)


def test_a_worker_is_ready_as_soon_as_it_is_registered(it: Stage) -> None:
    worker = it.add()
    assert it.registry.ready() == (worker,)
    assert worker.http_pool.timeout_secs == 77
    assert it.fleet.latest_job(worker.id) is None


def test_a_registered_worker_is_probed_and_polled(it: Stage) -> None:
    it.add()
    paths = it.engines.paths(A)[6:]
    assert paths[:2] == ["/health", "/loads?model=m1"]


def test_loads_are_not_polled_when_that_is_switched_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(monkeypatch, FleetOptions(disable_load_monitoring=True))
    it.add()
    assert it.engines.paths(A)[6:] == ["/health"]


def test_loads_are_polled_all_the_same_when_something_is_decided_by_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(
        monkeypatch,
        FleetOptions(disable_load_monitoring=True),
        needs_loads=lambda: True,
    )
    it.add()
    assert "/loads?model=m1" in it.engines.paths(A)


def test_a_worker_has_the_gateways_breaker_where_it_has_none_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(monkeypatch, breaker=BreakerSettings(failure_threshold=7))
    worker = it.add(resilience={"cb_success_threshold": 1})
    settings = worker.breaker.settings
    assert (settings.failure_threshold, settings.success_threshold) == (7, 1)


def test_workers_stand_in_the_order_they_were_asked_for(it: Stage) -> None:
    it.fleet.start([A, B, A], "k")
    it.engines.tables[B] = sglang()
    it.clock.advance(1)
    it.engines.tables[A] = sglang()
    it.clock.advance(1)
    assert [worker.url for worker in it.registry.all()] == [A, B]
    assert {worker.api_key for worker in it.registry.all()} == {"k"}


def test_an_unreachable_worker_is_not_listed(it: Stage) -> None:
    it.fleet.start([A], None)
    it.clock.advance(100)
    assert len(it.registry) == 0


@pytest.mark.parametrize("urls", [["http://h:1", "nonsense"], ["http://"]])
def test_a_malformed_start_up_url_is_an_error_and_starts_nothing(
    it: Stage, urls: list[str]
) -> None:
    with pytest.raises(InvalidSpec):
        it.fleet.start(urls, None)
    assert it.background.tasks == []


def test_a_registered_url_is_refused_even_while_it_drains(it: Stage) -> None:
    worker = it.add()
    it.fleet.remove(worker.id)
    with pytest.raises(AlreadyRegistered) as caught:
        it.fleet.add(WorkerSpec(A))
    assert caught.value.worker_id == worker.id


def test_a_url_that_is_being_registered_is_refused(it: Stage) -> None:
    job = it.fleet.add(WorkerSpec(A))
    with pytest.raises(BeingRegistered) as caught:
        it.fleet.add(WorkerSpec(A))
    assert caught.value.worker_id == job.worker_id


def test_urls_are_compared_letter_by_letter(it: Stage) -> None:
    it.add(A)
    it.add(A + "/")
    assert len(it.registry) == 2


def test_a_failed_registration_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(monkeypatch, FleetOptions(worker_startup_timeout_secs=3))
    job = it.fleet.add(WorkerSpec(A))
    it.clock.advance(4)
    with pytest.raises(UnknownWorker):
        it.fleet.url_of(job.worker_id)
    assert it.removed == [A]
    assert it.background.running == 0
    it.add(A)


def test_a_full_queue_refuses_and_keeps_no_trace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = FleetOptions(job_queue_capacity=1, job_queue_concurrency=1)
    it = Stage(monkeypatch, options)
    it.fleet.add(WorkerSpec("http://h:1"))
    it.fleet.add(WorkerSpec("http://h:2"))
    for _ in range(2):
        with pytest.raises(QueueFull):
            it.fleet.add(WorkerSpec("http://h:3"))


def test_a_ready_worker_drains_for_the_settle_time(it: Stage) -> None:
    worker = it.add()
    it.fleet.remove(worker.id)
    assert worker.state is WorkerState.DRAINING
    assert it.registry.ready() == ()
    it.clock.advance(4.9)
    assert it.registry.get(worker.id) is worker
    it.clock.advance(0.1)
    assert len(it.registry) == 0
    assert worker.is_removed
    assert it.removed == [A]
    assert it.background.running == 0


def test_removing_twice_drains_once(it: Stage) -> None:
    worker = it.add()
    it.fleet.remove(worker.id)
    it.clock.advance(3)
    it.fleet.remove(worker.id)
    it.clock.advance(2)
    assert it.removed == [A]


@pytest.mark.parametrize("state", [WorkerState.NOT_READY, WorkerState.FAILED])
def test_a_worker_that_is_not_ready_goes_at_once(it: Stage, state: WorkerState) -> None:
    worker = it.add()
    it.registry.set_state(worker, state)
    it.fleet.remove(worker.id)
    assert it.removed == [A]


def test_a_settle_time_of_nothing_removes_at_once(it: Stage) -> None:
    worker = it.add(health={"drain_settle_secs": 0})
    it.fleet.remove(worker.id)
    assert it.removed == [A]


def test_removing_or_patching_a_worker_that_still_starts_fails_as_a_job(
    it: Stage,
) -> None:
    job = it.fleet.add(WorkerSpec(A))
    assert it.failure(it.fleet.remove(job.worker_id)) == f"Worker {A} not found"
    patch = it.fleet.update(job.worker_id, WorkerPatch())
    assert it.failure(patch) == f"Worker {A} not found"
    it.engines.tables[A] = sglang()
    it.clock.advance(1)
    assert len(it.registry.ready()) == 1


def test_an_id_that_nobody_has_is_unknown(it: Stage) -> None:
    with pytest.raises(UnknownWorker):
        it.fleet.remove("x")
    with pytest.raises(UnknownWorker):
        it.fleet.update("x", WorkerPatch())
    with pytest.raises(UnknownWorker):
        it.fleet.replace("x", WorkerSpec(A))


def test_a_patch_changes_what_it_names_and_keeps_the_state(it: Stage) -> None:
    worker = it.add(priority=3, health={"timeout_secs": 2})
    it.registry.set_state(worker, WorkerState.NOT_READY)
    asked = len(it.engines.asked)
    patch = WorkerPatch(
        cost=2.5, labels={"q": "r"}, api_key="n", health={"failure_threshold": 9}
    )
    it.fleet.update(worker.id, patch)
    assert (worker.cost, worker.priority, worker.api_key) == (2.5, 3, "n")
    assert (worker.labels["q"], worker.labels["version"]) == ("r", "0.5")
    assert worker.health.failure_threshold == 9
    assert worker.spec["health"] == {"timeout_secs": 2, "failure_threshold": 9}
    assert worker.state is WorkerState.NOT_READY
    assert len(it.engines.asked) == asked


def test_a_replaced_worker_keeps_id_and_load_and_drops_the_old_spec(it: Stage) -> None:
    worker = it.add(priority=3, labels={"a": "b"}, api_key="old")
    worker.load = 4
    table = it.engines.tables[A] = sglang()
    table["/v1/models"]["data"][0]["id"] = "m2"
    it.fleet.replace(worker.id, WorkerSpec(A, cost=2.0, api_key="new"))
    assert it.registry.all() == [worker]
    assert (worker.priority, worker.cost, worker.load) == (50, 2.0, 4)
    assert (worker.model_id, worker.api_key) == ("m2", "new")
    assert "a" not in worker.labels
    assert it.registry.candidates("m2") == (worker,)
    assert not worker.is_removed


def test_a_worker_serves_on_while_its_replacement_is_asked(it: Stage) -> None:
    worker = it.add()
    it.engines.tables[A]["/health"] = 503
    job = it.fleet.replace(worker.id, WorkerSpec(A, cost=2.0))
    it.clock.advance(1)
    assert (worker.is_ready, worker.cost) == (True, 1.0)
    shown = it.fleet.latest_job(worker.id)
    assert shown is job and job.status == "processing"


def test_a_worker_removed_meanwhile_is_not_replaced(it: Stage) -> None:
    worker = it.add(health={"drain_settle_secs": 0})
    it.engines.tables[A]["/health"] = 503
    job = it.fleet.replace(worker.id, WorkerSpec(A))
    it.fleet.remove(worker.id)
    it.engines.tables[A]["/health"] = b""
    it.clock.advance(1)
    assert job.message == f"Worker {A} not found"
    assert len(it.registry) == 0


def test_failed_workers_stay_unless_told_otherwise(it: Stage) -> None:
    worker = it.add()
    del it.engines.tables[A]
    it.clock.advance(3600)
    assert it.registry.all() == [worker]
    assert worker.state is WorkerState.FAILED


def test_failed_workers_are_removed_when_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Stage(monkeypatch, FleetOptions(remove_unhealthy_workers=True))
    it.add()
    del it.engines.tables[A]
    it.clock.advance(3600)
    assert it.registry.all() == []
    assert it.removed == [A]
    assert it.background.running == 0


def test_closing_ends_everything_that_runs(it: Stage) -> None:
    it.add(A)
    draining = it.add("http://c:1")
    it.fleet.remove(draining.id)
    it.fleet.add(WorkerSpec(B))
    assert it.background.running > 0
    it.fleet.close()
    assert it.background.running == 0
    it.fleet.close()
