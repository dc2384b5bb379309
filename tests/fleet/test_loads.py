from typing import Any

from smgproxy.fleet.loads import LoadMonitor
from smgproxy.fleet.worker import Worker, WorkerState
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines

URL = "http://w:1"
OWN = "/loads?model=org%2Fm%20%261"
ENGINE = "/v1/loads?include=core,disagg,queues,memory"
REPORT = {"loads": [{"num_running_reqs": 3}]}


class Stage:
    """A monitor that polls one ready worker every ten seconds."""

    def __init__(self, table: dict[str, Any]) -> None:
        self.clock = FakeClock()
        self.background = FakeBackground(self.clock)
        self.engines = FakeEngines()
        self.engines.tables[URL] = table
        self.worker = Worker("id", URL, api_key="k")
        self.worker.models = [{"id": "org/m &1"}]
        self.worker.state = WorkerState.READY
        monitor = LoadMonitor(self.engines.fetch, self.background.sleep, 10)
        self.background.spawn(monitor.watch(self.worker))

    @property
    def running(self) -> int | None:
        load = self.worker.engine_load
        return None if load is None else load["loads"][0]["num_running_reqs"]


def test_sources_are_tried_in_the_contracts_order_with_the_key() -> None:
    it = Stage({})
    assert it.engines.paths(URL) == [OWN, ENGINE, "/metrics"]
    assert all(
        headers == [(b"authorization", b"Bearer k")]
        for _, _, headers in it.engines.asked
    )


def test_the_source_that_works_is_polled_alone_afterwards() -> None:
    it = Stage({ENGINE: REPORT})
    assert it.running == 3
    it.clock.advance(20)
    assert it.engines.paths(URL) == [OWN, ENGINE, ENGINE, ENGINE]
    assert it.worker.load_polls == 3


def test_an_unusable_answer_sends_the_poll_on_to_the_next_source() -> None:
    page = b"vllm:kv_cache_usage_perc 1\n"
    it = Stage({OWN: {"loads": []}, ENGINE: b"x", "/metrics": page})
    assert it.running == 0


def test_a_failed_poll_clears_the_report_and_the_next_one_looks_anew() -> None:
    it = Stage({ENGINE: REPORT})
    del it.engines.tables[URL][ENGINE]
    it.clock.advance(10)
    assert it.running is None
    it.engines.tables[URL][OWN] = REPORT
    it.clock.advance(10)
    assert it.running == 3
    assert it.engines.paths(URL)[-2:] == [ENGINE, OWN]


def test_a_worker_that_reports_nothing_is_asked_less_often() -> None:
    it = Stage({})
    it.clock.advance(59)
    assert it.worker.load_polls == 1
    it.clock.advance(1)
    assert it.worker.load_polls == 2


def test_a_worker_that_is_not_ready_is_not_asked() -> None:
    it = Stage({ENGINE: REPORT})
    it.worker.state = WorkerState.NOT_READY
    it.clock.advance(50)
    assert it.worker.load_polls == 1
    it.worker.state = WorkerState.READY
    it.clock.advance(10)
    assert it.worker.load_polls == 2


def test_a_draining_worker_is_left_alone() -> None:
    it = Stage({ENGINE: REPORT})
    it.worker.state = WorkerState.DRAINING
    it.clock.advance(10)
    assert it.background.running == 0
