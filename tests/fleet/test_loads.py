from typing import Any

from smgproxy.fleet.loads import LoadMonitor
from smgproxy.fleet.overload import DEFAULT_LIMITS, OverloadLimits
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker, WorkerState
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines

URL = "http://w:1"
OWN = "/loads?model=org%2Fm%20%261"
ENGINE = "/v1/loads?include=core,disagg,queues,memory"
REPORT = {"loads": [{"num_running_reqs": 3}]}


def waiting(count: int) -> dict[str, Any]:
    return {"loads": [{"num_waiting_reqs": count}]}


class Stage:
    """A monitor that polls one ready worker every ten seconds."""

    def __init__(
        self,
        table: dict[str, Any],
        limits: OverloadLimits | None = DEFAULT_LIMITS,
        own_limits: OverloadLimits | None = None,
    ) -> None:
        self.clock = FakeClock()
        self.background = FakeBackground(self.clock)
        self.engines = FakeEngines()
        self.engines.tables[URL] = table
        self.worker = Worker("id", URL, api_key="k")
        self.worker.models = [{"id": "org/m &1"}]
        self.worker.overload = own_limits
        self.registry = Registry()
        self.registry.add(self.worker)
        self.registry.set_state(self.worker, WorkerState.READY)
        self.is_wanted = True
        monitor = LoadMonitor(
            self.registry,
            self.engines.fetch,
            self.background.sleep,
            10,
            limits,
            lambda: self.is_wanted,
        )
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


def test_the_last_report_is_remembered_when_a_poll_fails() -> None:
    it = Stage({ENGINE: REPORT})
    it.engines.tables[URL] = {}
    it.clock.advance(10)
    assert it.worker.engine_load is None
    assert it.worker.last_report is not None
    assert it.worker.last_report["loads"][0]["num_running_reqs"] == 3


def test_a_worker_that_reports_nothing_is_asked_less_often() -> None:
    it = Stage({})
    it.clock.advance(59)
    assert it.worker.load_polls == 1
    it.clock.advance(1)
    assert it.worker.load_polls == 2


def test_a_worker_that_comes_back_reports_within_an_interval() -> None:
    it = Stage({ENGINE: REPORT})
    it.engines.tables[URL] = {}
    it.clock.advance(40)
    assert it.running is None
    it.worker.backlog.note_sent(0)
    it.engines.tables[URL][ENGINE] = REPORT
    it.clock.advance(10)
    assert it.running == 3
    assert not it.worker.backlog.sent


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


def test_a_report_at_a_limit_makes_a_worker_overloaded_and_the_next_one_frees_it() -> (
    None
):
    it = Stage({ENGINE: waiting(8)})
    assert it.worker.is_overloaded
    it.engines.tables[URL][ENGINE] = waiting(7)
    it.clock.advance(10)
    assert not it.worker.is_overloaded


def test_a_worker_is_judged_by_limits_of_its_own_even_without_the_gateways() -> None:
    own = OverloadLimits(waiting_requests=2)
    assert Stage({ENGINE: waiting(2)}, None, own).worker.is_overloaded
    assert not Stage({ENGINE: waiting(2)}).worker.is_overloaded
    assert not Stage({ENGINE: waiting(99)}, None).worker.is_overloaded


def test_a_failed_poll_clears_the_verdict() -> None:
    it = Stage({ENGINE: waiting(99)})
    it.engines.tables[URL][ENGINE] = 500
    it.clock.advance(10)
    assert not it.worker.is_overloaded


def test_leaving_ready_clears_report_and_verdict() -> None:
    it = Stage({ENGINE: waiting(99)})
    it.registry.set_state(it.worker, WorkerState.NOT_READY)
    assert (it.worker.engine_load, it.worker.is_overloaded) == (None, False)


def test_the_registry_is_told_of_a_verdict_once() -> None:
    it = Stage({ENGINE: waiting(1)})
    told: list[bool] = []
    it.registry.watch(lambda: told.append(it.worker.is_overloaded))
    it.engines.tables[URL][ENGINE] = waiting(99)
    it.clock.advance(30)
    assert told == [True]


def test_what_nobody_needs_is_not_asked_for_until_somebody_does() -> None:
    it = Stage({ENGINE: REPORT})
    it.is_wanted = False
    it.clock.advance(50)
    assert it.worker.load_polls == 1
    it.is_wanted = True
    it.clock.advance(10)
    assert it.worker.load_polls == 2


def test_a_report_that_nobody_renews_vetoes_nobody() -> None:
    it = Stage({ENGINE: waiting(99)})
    it.is_wanted = False
    it.clock.advance(10)
    assert (it.worker.engine_load, it.worker.is_overloaded) == (None, False)


def test_a_worker_with_limits_of_its_own_is_always_asked() -> None:
    it = Stage({ENGINE: REPORT}, own_limits=DEFAULT_LIMITS)
    it.is_wanted = False
    it.clock.advance(10)
    assert it.worker.load_polls == 2
