"""What remains of a finished exchange: counters and one log line."""

from __future__ import annotations

import pytest

from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.message import RequestHead
from smgproxy.dispatch.account import Account
from smgproxy.fleet.worker import Worker
from smgproxy.telemetry.requestlog import RequestLog
from smgproxy.telemetry.stats import HttpStats
from tests.core.scripted import ScriptedSink, ScriptedSource
from tests.fakes.clock import FakeClock

PATH = "/v1/chat/completions"


class Out:
    """Where the log's lines go."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        """Take whole lines."""
        self.text += text

    def flush(self) -> None:
        """Nothing waits."""


class Books:
    """An account, its counters and its log, under a clock of the test's."""

    def __init__(self, patch: pytest.MonkeyPatch, level: str = "info") -> None:
        self.clock = FakeClock()
        self.clock.stand_in(patch, "smgproxy.dispatch.account")
        self.http = HttpStats()
        self.out = Out()
        self.log = RequestLog(level, False, self.out)
        self.account = Account(self.http, self.log)

    def open(self, method: str = "POST", path: str = PATH) -> Exchange:
        """An exchange whose head came in now."""
        head = RequestHead(method, path, "secret=1", [])
        exchange = Exchange(
            head, ScriptedSource(), ScriptedSink(), "127.0.0.1", self.clock.now
        )
        exchange.id, exchange.path = b"chatcmpl-1", path
        self.account.opened(exchange)
        return exchange

    def finish(self, exchange: Exchange, status: int, code: str = "") -> None:
        """Answer, half a second later, and end."""
        self.clock.advance(0.5)
        exchange.status, exchange.error_code = status, code
        exchange.committed_at = self.clock.now
        self.account.finished(exchange)

    def lines(self) -> list[str]:
        """The last lines of requests, so far."""
        self.log.flush()
        return [one for one in self.out.text.splitlines() if "smg::response" in one]


@pytest.fixture
def books(monkeypatch: pytest.MonkeyPatch) -> Books:
    return Books(monkeypatch)


def test_a_request_is_in_flight_until_it_is_finished(books: Books) -> None:
    first, second = books.open(), books.open()
    assert books.http.in_flight == 2
    books.finish(first, 200)
    books.finish(second, 200)
    assert books.http.in_flight == 0
    assert books.http.requests == {("POST", PATH): 2}
    assert books.http.responses == {(PATH, 200, ""): 2}


def test_an_error_is_counted_by_its_code(books: Books) -> None:
    books.finish(books.open(), 503, "no_available_workers")
    assert books.http.responses == {(PATH, 503, "no_available_workers"): 1}


def test_the_wait_for_the_head_is_measured_from_the_requests_head(
    books: Books,
) -> None:
    exchange = books.open()
    books.finish(exchange, 200)
    assert books.http.durations["POST", PATH].total == pytest.approx(0.5)


def test_a_client_that_left_is_a_499_whatever_it_had_got(books: Books) -> None:
    unanswered, answered = books.open(), books.open()
    unanswered.cancel(Verdict.CLIENT_GONE)
    books.account.finished(unanswered)
    answered.cancel(Verdict.CLIENT_GONE)
    books.finish(answered, 200)
    assert books.http.responses == {(PATH, 499, "client_closed_request"): 2}
    # Only the one whose head left has a time.
    assert sum(books.http.durations["POST", PATH].counts) == 1


def test_a_client_that_left_within_its_upload_aborted_it(books: Books) -> None:
    exchange = books.open()
    exchange.cancel(Verdict.CLIENT_GONE)
    books.finish(exchange, 0, "request_body_aborted")
    assert books.http.responses == {(PATH, 400, "request_body_aborted"): 1}


def test_a_drained_request_keeps_its_own_status(books: Books) -> None:
    exchange = books.open()
    exchange.cancel(Verdict.DRAINED)
    books.finish(exchange, 503, "gateway_shutting_down")
    assert books.http.responses == {(PATH, 503, "gateway_shutting_down"): 1}


def test_a_method_the_contract_does_not_know_is_no_label(books: Books) -> None:
    books.finish(books.open("BREW"), 405, "method_not_allowed")
    assert set(books.http.requests) == {("OTHER", PATH)}
    assert set(books.http.durations) == {("OTHER", PATH)}


def test_the_log_names_the_request_its_worker_and_its_time(books: Books) -> None:
    exchange = books.open()
    exchange.worker = Worker("id-1", "http://127.0.0.1:8000")
    books.finish(exchange, 200)
    [line] = books.lines()
    assert " INFO " in line
    assert f"method=POST path={PATH} version=HTTP/1.1 " in line
    assert 'request_id="chatcmpl-1" status_code=200 latency=500000}' in line
    assert line.endswith('worker="http://127.0.0.1:8000"')
    assert "secret" not in books.out.text


def test_the_log_names_the_model_that_served_when_it_is_another(books: Books) -> None:
    exchange = books.open()
    exchange.served_model = b"small"
    books.finish(exchange, 200)
    assert books.lines()[0].endswith(' served_model="small"')


def test_a_request_is_logged_when_it_begins(books: Books) -> None:
    books.open()
    books.log.flush()
    [line] = books.out.text.splitlines()
    assert 'request_id="chatcmpl-1"}: smg::request: ' in line


@pytest.mark.parametrize(
    ("status", "level"), [(200, "INFO"), (404, "WARN"), (500, "ERROR")]
)
def test_the_level_follows_the_status(books: Books, status: int, level: str) -> None:
    books.finish(books.open(), status)
    assert f" {level} " in books.lines()[0]


def test_probes_are_too_quiet_for_the_usual_level(books: Books) -> None:
    books.finish(books.open("GET", "/health"), 200)
    assert books.lines() == []


def test_what_the_level_does_not_want_is_counted_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    books = Books(monkeypatch, level="error")
    books.finish(books.open(), 404, "model_not_found")
    books.finish(books.open(), 500, "call_upstream_request_error")
    assert len(books.lines()) == 1
    assert len(books.http.responses) == 2
