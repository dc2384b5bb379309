import itertools
import logging

import pytest

from smgproxy.fleet.options import FleetOptions
from smgproxy.fleet.registration import (
    Registration,
    RegistrationFailed,
    startup_pauses,
)
from smgproxy.fleet.spec import WorkerSpec
from smgproxy.fleet.worker import HttpPoolSettings, Worker
from tests.fakes.background import FakeBackground
from tests.fakes.clock import FakeClock
from tests.fakes.engine import FakeEngines, models, sglang

URL = "http://w:1"
KEYED = [(b"authorization", b"Bearer k")]


class Stage:
    """One registration on a hand-wound clock."""

    def __init__(
        self, spec: WorkerSpec, options: FleetOptions, pool: HttpPoolSettings
    ) -> None:
        self.clock = FakeClock()
        self.engines = FakeEngines()
        self.background = FakeBackground(self.clock)
        self.worker = Worker(
            "id", spec.url, api_key=spec.api_key, http_pool=spec.pool_settings(pool)
        )
        self.outcome = "running"
        self.registration = Registration(
            self.worker, spec, options, self.engines.fetch, self.background.sleep
        )

    def begin(self) -> None:
        self.background.spawn(self._run())

    async def _run(self) -> None:
        try:
            await self.registration.run()
            self.outcome = "up"
        except RegistrationFailed as error:
            self.outcome = str(error)


def stage(
    patch: pytest.MonkeyPatch,
    spec: WorkerSpec = WorkerSpec(URL, api_key="k"),
    options: FleetOptions = FleetOptions(),
    pool: HttpPoolSettings = HttpPoolSettings(),
) -> Stage:
    made = Stage(spec, options, pool)
    made.clock.stand_in(patch, "smgproxy.fleet.registration")
    return made


def test_an_sglang_worker_is_asked_in_the_contracts_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch)
    it.engines.tables[URL] = sglang()
    it.begin()
    assert it.outcome == "up"
    assert it.engines.paths(URL) == [
        *("/health", "/health", "/v1/models"),
        *("/server_info", "/model_info", "/v1/models"),
    ]
    assert it.worker.runtime_type == "sglang"
    assert it.worker.model_id == "m1"


def test_the_first_two_steps_carry_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    it = stage(monkeypatch)
    it.engines.tables[URL] = sglang()
    it.begin()
    assert [headers for _, _, headers in it.engines.asked] == [[], [], *[KEYED] * 4]


def test_a_vllm_worker_is_asked_for_models_and_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch)
    it.engines.tables[URL] = {
        "/health": b"",
        "/v1/models": models("vllm", max_model_len=4096),
        "/version": {"version": "0.11"},
    }
    it.begin()
    assert it.engines.paths(URL)[2:] == ["/v1/models", "/v1/models", "/version"]
    assert it.worker.labels["version"] == "0.11"
    assert it.worker.models[0]["context_length"] == 4096


def test_older_info_paths_are_asked_after_a_404(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch)
    table = it.engines.tables[URL] = sglang()
    table["/get_server_info"] = table.pop("/server_info")
    table["/model_info"] = 500
    it.begin()
    assert it.engines.paths(URL)[3:] == [
        *("/server_info", "/get_server_info", "/model_info", "/v1/models")
    ]
    assert it.worker.labels["version"] == "0.5"


def test_a_given_runtime_is_not_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    it = stage(monkeypatch, WorkerSpec(URL, runtime_type="vllm"))
    it.engines.tables[URL] = {"/health": b""}
    it.begin()
    assert it.engines.paths(URL)[2:] == ["/v1/models", "/version"]
    assert (it.worker.runtime_type, it.worker.model_id) == ("vllm", "unknown")


def test_given_cards_and_labels_stand_over_what_the_worker_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec = WorkerSpec(URL, models=({"id": "mine"},), labels={"version": "x", "a": "b"})
    it = stage(monkeypatch, spec)
    it.engines.tables[URL] = sglang()
    it.begin()
    assert it.worker.models == [{"id": "mine"}]
    assert (it.worker.labels["version"], it.worker.labels["a"]) == ("x", "b")
    assert it.worker.labels["served_model_name"] == "m1"


def test_the_engines_name_of_a_renamed_model_is_an_alias_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for keeps, name, aliases in (
        (True, "mine", ["m1"]),
        (False, "mine", None),
        (True, "m1", None),
    ):
        labels = {"served_model_name": name}
        spec = WorkerSpec(URL, labels=labels, keeps_engine_name=keeps)
        it = stage(monkeypatch, spec)
        it.engines.tables[URL] = sglang()
        it.begin()
        [card] = it.worker.models
        assert (card["id"], card.get("aliases")) == (name, aliases)


def test_pauses_are_a_second_at_first_and_grow_to_the_interval() -> None:
    pauses = list(itertools.islice(startup_pauses(30), 17))
    assert pauses == [1] * 10 + [2, 4, 8, 16, 30, 30, 30]
    assert list(itertools.islice(startup_pauses(1), 12)) == [1] * 12


def test_a_worker_that_comes_up_late_is_registered_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch)
    it.begin()
    it.clock.advance(3.5)
    assert it.outcome == "running"
    it.engines.tables[URL] = sglang()
    it.clock.advance(0.5)
    assert it.outcome == "up"


def test_a_worker_that_never_answers_fails_at_the_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch, options=FleetOptions(worker_startup_timeout_secs=60))
    it.begin()
    it.clock.advance(61)
    assert it.outcome == "no 2xx from /health within 60 s, last: down"
    assert it.background.running == 0


def test_the_first_probe_waits_for_the_startup_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch, options=FleetOptions(worker_startup_delay=7))
    it.engines.tables[URL] = sglang()
    it.begin()
    it.clock.advance(6.9)
    assert it.engines.asked == []
    it.clock.advance(0.1)
    assert it.outcome == "up"


def test_a_model_list_without_health_never_registers_and_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    it = stage(monkeypatch, options=FleetOptions(worker_startup_timeout_secs=5))
    it.engines.tables[URL] = {"/v1/models": models("vllm")}
    with caplog.at_level(logging.WARNING):
        it.begin()
        it.clock.advance(6)
    assert it.outcome == "no 2xx from /health within 5 s, last: status 404"
    assert "lists models but does not answer /health" in caplog.text


def test_an_unknown_engine_with_models_is_generic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch)
    it.engines.tables[URL] = {"/health": b"", "/v1/models": models("acme")}
    it.begin()
    assert it.outcome == "up"
    assert it.worker.runtime_type == "generic"


def test_a_worker_that_tells_nothing_is_asked_again_with_growing_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch, options=FleetOptions(worker_startup_timeout_secs=10))
    it.engines.tables[URL] = {"/health": b""}
    it.begin()
    rounds = []
    for _ in range(7):
        rounds.append(it.engines.paths(URL).count("/version"))
        it.clock.advance(1)
    # After 1, 3 and 6 seconds; the next pause would outlast the time-out.
    assert rounds == [1, 2, 2, 3, 3, 3, 4]
    assert it.outcome == "up"
    assert (it.worker.runtime_type, it.worker.model_id) == ("sglang", "unknown")
    assert it.worker.labels == {}


def test_a_cancelled_registration_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    it = stage(monkeypatch)
    it.begin()
    it.background.tasks[0].cancel()
    assert it.background.running == 0


@pytest.mark.parametrize("name", ["bad\ud800", "a\nb", "a" * 600])
def test_a_model_name_that_could_not_be_shown_is_not_taken_from_a_worker(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = stage(monkeypatch)
    it.engines.tables[URL] = {"/health": b"ok", "/v1/models": models("vllm", name)}
    it.begin()
    assert it.outcome == "up"
    assert it.worker.models[0]["id"] == "unknown"


# -- HTTP/2 ----------------------------------------------------------------------------

PREFERRED = HttpPoolSettings(prefers_http2=True)
PINNED = WorkerSpec(URL, http_pool={"http2": True})
BOTH, ONLY = {False, True}, {True}


@pytest.mark.parametrize(
    ("pool", "http_pool", "speaks", "is_spoken"),
    [
        (HttpPoolSettings(), None, BOTH, False),
        (PREFERRED, None, BOTH, True),
        (PREFERRED, None, ONLY, True),
        (PREFERRED, None, {False}, False),
        (PREFERRED, {"http2": False}, BOTH, False),
        (HttpPoolSettings(), {"http2": True}, BOTH, True),
        (HttpPoolSettings(), {"http2": True}, ONLY, True),
    ],
)
def test_what_is_spoken_is_found_out_once_unless_it_is_pinned(
    pool: HttpPoolSettings,
    http_pool: dict[str, bool] | None,
    speaks: set[bool],
    is_spoken: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch, WorkerSpec(URL, http_pool=http_pool), pool=pool)
    it.engines.tables[URL] = sglang()
    it.engines.http2[URL] = speaks
    it.begin()
    assert it.outcome == "up"
    assert it.worker.http2 is is_spoken
    assert it.engines.asked_by_http2[-4:] == [is_spoken] * 4


def test_a_worker_pinned_to_http2_that_speaks_http11_fails_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch, PINNED)
    it.engines.tables[URL] = sglang()
    it.begin()
    assert it.outcome == "http_pool.http2 is true, but the worker speaks HTTP/1.1 only"


def test_a_worker_pinned_to_http2_that_is_down_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = stage(monkeypatch, PINNED)
    it.begin()
    it.clock.advance(3.5)
    assert it.outcome == "running"
    it.engines.tables[URL] = sglang()
    it.engines.http2[URL] = ONLY
    it.clock.advance(0.5)
    assert (it.outcome, it.worker.http2) == ("up", True)


def test_with_tls_nothing_is_tried_as_the_handshake_chooses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = "https://w:1"
    it = stage(monkeypatch, WorkerSpec(url), pool=PREFERRED)
    it.engines.tables[url] = sglang()
    it.begin()
    assert it.outcome == "up"
    assert not any(it.engines.asked_by_http2)
