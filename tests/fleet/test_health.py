import pytest

from smgproxy.fleet.health import MAX_PROBES_AT_ONCE, HealthMonitor
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import HealthSettings, HttpPoolSettings, Worker, WorkerState
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines

URL = "http://w:1"
SETTINGS = HealthSettings(
    check_interval_secs=10, failure_threshold=2, success_threshold=2
)


class Stage:
    """A monitor that watches one ready worker on a hand-wound clock."""

    def __init__(
        self,
        settings: HealthSettings = SETTINGS,
        draw: float = 0.5,
        pool: HttpPoolSettings | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.background = FakeBackground(self.clock)
        self.engines = FakeEngines()
        self.engines.tables[URL] = {"/health": b""}
        self.registry = Registry()
        self.failed: list[Worker] = []
        self.monitor = HealthMonitor(
            self.registry,
            self.engines.fetch,
            self.background.sleep,
            self.failed.append,
            lambda: draw,
        )
        self.worker = Worker("id", URL, health=settings, api_key="k", http_pool=pool)
        self.registry.add(self.worker)
        self.registry.set_state(self.worker, WorkerState.READY)

    def watch(self) -> None:
        self.background.spawn(self.monitor.watch(self.worker))


def test_the_first_probe_is_at_once_and_carries_the_key() -> None:
    it = Stage()
    it.watch()
    assert it.engines.asked == [(URL, "GET /health", [(b"authorization", b"Bearer k")])]
    assert (it.worker.successes, it.worker.failures) == (1, 0)


def test_probes_come_every_interval() -> None:
    it = Stage()
    it.watch()
    it.clock.advance(35)
    assert it.worker.successes == 4


@pytest.mark.parametrize(("draw", "secs"), [(0.0, 9.0), (1.0, 11.0)])
def test_the_interval_is_spread_so_that_workers_drift_apart(
    draw: float, secs: float
) -> None:
    it = Stage(draw=draw)
    it.watch()
    it.clock.advance(secs - 0.01)
    assert it.worker.successes == 1
    it.clock.advance(0.02)
    assert it.worker.successes == 2


def test_a_worker_that_fails_leaves_and_comes_back() -> None:
    it = Stage()
    it.worker.engine_load = {"loads": []}
    it.watch()
    it.engines.tables[URL]["/health"] = 503
    it.clock.advance(20)
    assert it.worker.state is WorkerState.NOT_READY
    assert it.worker.engine_load is None
    assert it.registry.ready() == ()
    it.engines.tables[URL]["/health"] = b""
    it.clock.advance(20)
    assert it.worker.state is WorkerState.READY
    assert (it.worker.successes, it.worker.failures) == (3, 2)


def test_a_worker_that_fails_for_long_is_reported_and_still_probed() -> None:
    it = Stage()
    it.watch()
    del it.engines.tables[URL]
    it.clock.advance(80)
    assert it.worker.state is WorkerState.FAILED
    assert it.failed == [it.worker]
    it.engines.tables[URL] = {"/health": b""}
    it.clock.advance(20)
    assert it.registry.ready() == (it.worker,)


@pytest.mark.parametrize("before", [True, False])
def test_a_worker_that_comes_back_with_the_other_version_of_http_is_used(
    before: bool,
) -> None:
    it = Stage(pool=HttpPoolSettings(prefers_http2=True))
    it.worker.http2 = before
    it.engines.http2[URL] = {before}
    it.watch()
    it.engines.http2[URL] = set()  # down
    it.clock.advance(30)
    assert (it.worker.state, it.worker.http2) == (WorkerState.NOT_READY, before)
    it.engines.http2[URL] = {not before}
    it.clock.advance(20)
    assert (it.worker.state, it.worker.http2) == (WorkerState.READY, not before)


@pytest.mark.parametrize(
    "pool",
    [HttpPoolSettings(), HttpPoolSettings(prefers_http2=True, http2=True)],
    ids=("not_asked_for", "pinned"),
)
def test_a_worker_is_asked_by_one_version_of_http_unless_either_will_do(
    pool: HttpPoolSettings,
) -> None:
    it = Stage(pool=pool)
    it.worker.http2 = spoken = bool(pool.http2)
    it.engines.http2[URL] = {not spoken}
    it.watch()
    it.clock.advance(100)
    assert it.worker.state is WorkerState.FAILED
    assert set(it.engines.asked_by_http2) == {spoken}


def test_a_worker_without_health_checks_is_not_probed() -> None:
    it = Stage(HealthSettings(disable_health_check=True))
    it.watch()
    it.clock.advance(300)
    assert it.engines.asked == []


def test_a_removed_worker_is_probed_no_more() -> None:
    it = Stage()
    it.watch()
    it.registry.remove(it.worker)
    it.clock.advance(20)
    assert it.background.running == 0
    assert it.worker.successes == 1


def test_a_probe_that_ends_after_the_drain_began_changes_nothing() -> None:
    it = Stage(HealthSettings(failure_threshold=1))
    it.engines.tables[URL]["/health"] = 503
    it.engines.before = lambda: it.background.sleep(1)
    it.watch()
    it.registry.set_state(it.worker, WorkerState.DRAINING)
    it.clock.advance(1)
    assert it.worker.state is WorkerState.DRAINING


def test_probes_at_once_are_bounded() -> None:
    assert MAX_PROBES_AT_ONCE == 128
