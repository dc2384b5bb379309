"""Log lines: one line each whatever is in them, and never a reason to fail."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
import ujson

from smgproxy.core.message import RequestHead
from smgproxy.telemetry.logs import LogFormatter, printable
from smgproxy.telemetry.requestlog import MAX_WAITING, MAX_WORKERS, RequestLog

HOSTILE = "/a\n2026-01-01 ERROR forged\x1b[31m\u202e"


class Written:
    """Where lines go in these tests."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


CHAT = "/v1/chat/completions"


def start(
    log: RequestLog, path: str = CHAT, method: str = "POST", request_id: bytes = b"id-1"
) -> None:
    log.started(RequestHead(method, path, "", []), CHAT, request_id)


def end(log: RequestLog, head: RequestHead | None = None, **changes: Any) -> None:
    facts: dict[str, Any] = {
        "span": "",
        "head": head or RequestHead("POST", CHAT, "", []),
        "template": CHAT,
        "request_id": b"id-1",
        "status": 200,
        "error_code": "",
        "worker": "http://w",
        "secs": 0.0015,
    }
    log.ended(**{**facts, **changes})


def without_place(line: str) -> str:
    """A text line without its time and its line number."""
    return re.sub(r"py: \d+:", "py: N:", line[20:])


def test_the_two_lines_of_a_request_as_text() -> None:
    written = Written()
    log = RequestLog("info", False, written)
    start(log)
    end(log, status=503, error_code="no_available_workers", worker="")
    log.flush()
    first, last = map(without_place, written.text.splitlines())
    said = f'method=POST path={CHAT} version=HTTP/1.1 module="smg" request_id="id-1"'
    file = "smgproxy/telemetry/requestlog.py: N"
    assert first == (
        f" INFO http_request{{{said}}}: smg::request: {file}: "
        "started processing request"
    )
    assert last == (
        f"ERROR http_request{{{said} status_code=503 latency=1500}}: smg::response: "
        f'{file}: request failed with server error error_code="no_available_workers"'
    )


def test_the_two_lines_of_a_request_as_json() -> None:
    written = Written()
    log = RequestLog("info", True, written)
    start(log)
    end(log, status=404, error_code="model_not_found")
    log.flush()
    first, last = map(ujson.loads, written.text.splitlines())
    scope = {
        "method": "POST",
        "module": "smg",
        "path": CHAT,
        "request_id": "id-1",
        "version": "HTTP/1.1",
        "name": "http_request",
    }
    for row in first, last:
        assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row.pop("timestamp"))
        assert row.pop("line_number") > 0
    file = "smgproxy/telemetry/requestlog.py"
    assert first == {
        "level": "INFO",
        "message": "started processing request",
        "target": "smg::request",
        "filename": file,
        "span": scope,
        "spans": [scope],
    }
    ended = {**scope, "status_code": 404, "latency": 1500}
    assert last == {
        "level": "WARN",
        "message": "request failed with client error",
        "error_code": "model_not_found",
        "worker": "http://w",
        "target": "smg::response",
        "filename": file,
        "span": ended,
        "spans": [ended],
    }


def test_the_keys_of_a_json_line_stand_in_the_contracts_order() -> None:
    written = Written()
    log = RequestLog("info", True, written)
    end(log)
    log.flush()
    keys = list(ujson.loads(written.text))
    assert keys[:3] == ["timestamp", "level", "message"]
    assert keys[-5:] == ["target", "filename", "line_number", "span", "spans"]


@pytest.mark.parametrize("is_json", [False, True])
def test_what_a_client_chose_cannot_forge_a_line(is_json: bool) -> None:
    written = Written()
    log = RequestLog("info", is_json, written)
    head = RequestHead("\x1b[2J", HOSTILE, "", [])
    bad_id = b'a"}: x'
    log.started(head, CHAT, bad_id)
    end(log, head, request_id=bad_id, worker="http://w\n", error_code='"\n')
    log.flush()
    assert written.text.count("\n") == 2
    assert "\x1b" not in written.text
    assert written.text.isascii()


@pytest.mark.parametrize(
    ("level", "template", "status", "is_wanted"),
    [
        ("info", "/v1/models", 200, True),
        ("info", "/health", 200, False),
        ("debug", "/health", 200, True),
        ("warn", "/v1/models", 200, False),
        ("warn", "/v1/models", 404, True),
        ("error", "/v1/models", 404, False),
        ("error", "/v1/models", 502, True),
        ("off", "/v1/models", 502, False),
    ],
)
def test_levels_follow_the_status(
    level: str, template: str, status: int, is_wanted: bool
) -> None:
    written = Written()
    log = RequestLog(level, False, written)
    end(log, template=template, status=status)
    log.flush()
    assert bool(written.text) == is_wanted


def test_a_stream_that_broke_behind_its_head_is_an_error() -> None:
    written = Written()
    log = RequestLog("error", False, written)
    end(log, template="/v1/messages", error_code="stream_error")
    log.flush()
    assert " ERROR " in written.text


def test_a_flood_does_not_wait_for_the_timer() -> None:
    written = Written()
    log = RequestLog("info", False, written)
    for _ in range(MAX_WAITING + 5):
        end(log)
    assert written.text.count("\n") == MAX_WAITING
    log.flush()
    assert written.text.count("\n") == MAX_WAITING + 5


def test_plain_text_stays_as_it_is() -> None:
    assert printable("/v1/models") == "/v1/models"


def test_a_record_with_a_traceback_keeps_to_its_line() -> None:
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        info = (ValueError, error, error.__traceback__)
    one = logging.LogRecord("smgproxy.x", logging.ERROR, "", 0, "no %s", ("go",), info)
    assert "\n" not in LogFormatter(is_json=False).format(one)
    assert ujson.loads(LogFormatter(is_json=True).format(one))["target"] == "smgproxy.x"


@pytest.mark.parametrize(
    ("template", "status", "error_code", "level", "message"),
    [
        ("/readiness", 503, "", "DEBUG", "finished probe request"),
        ("/v1/models", 200, "", "INFO", "finished processing request"),
        ("/v1/models", 400, "x", "WARN", "request failed with client error"),
        ("/v1/models", 499, "x", "INFO", "client closed the request"),
        ("/v1/models", 502, "x", "ERROR", "request failed with server error"),
        (
            *("/v1/messages", 200, "stream_error"),
            *("ERROR", "response stream failed after the head was sent"),
        ),
    ],
)
def test_a_json_line_says_how_the_request_ended(
    template: str, status: int, error_code: str, level: str, message: str
) -> None:
    written = Written()
    log = RequestLog("debug", True, written)
    end(log, template=template, status=status, error_code=error_code)
    log.flush()
    row = ujson.loads(written.text)
    assert (row["level"], row["message"]) == (level, message)


@pytest.mark.parametrize(
    ("level", "template", "is_wanted"),
    [
        ("info", "/v1/models", True),
        ("warn", "/v1/models", False),
        ("info", "/readiness", False),
        ("debug", "/readiness", True),
    ],
)
def test_the_beginning_is_told_at_info_and_that_of_a_probe_at_debug(
    level: str, template: str, is_wanted: bool
) -> None:
    written = Written()
    log = RequestLog(level, False, written)
    log.started(RequestHead("GET", template, "", []), template, b"id-1")
    log.flush()
    assert bool(written.text) == is_wanted


def test_a_last_line_repeats_what_the_first_said() -> None:
    written = Written()
    log = RequestLog("info", False, written)
    head = RequestHead("POST", CHAT, "", [])
    words = log.started(head, CHAT, b"id-1")
    end(log, span=words)
    end(log)
    log.flush()
    _, repeated, anew = written.text.splitlines()
    assert without_place(repeated) == without_place(anew)


def test_workers_that_come_and_go_are_not_all_remembered() -> None:
    written = Written()
    log = RequestLog("info", False, written)
    for number in range(MAX_WORKERS + 1):
        end(log, worker=f"http://w{number}")
    log.flush()
    assert len(log._workers) == 1
    assert f'worker="http://w{MAX_WORKERS}"' in written.text


def test_nothing_is_written_when_nothing_happened() -> None:
    written = Written()
    RequestLog("debug", False, written).flush()
    assert written.text == ""
