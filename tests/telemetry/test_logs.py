"""Log lines: one line each whatever is in them, and never a reason to fail."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import ujson

from smgproxy.telemetry.logs import LogFormatter, printable
from smgproxy.telemetry.requestlog import MAX_WAITING, RequestLog

HOSTILE = "/a\n2026-01-01 ERROR forged\x1b[31m\u202e"


class Written:
    """Where lines go in these tests."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        self.text += text

    def flush(self) -> None:
        pass


def record(log: RequestLog, **changes: Any) -> None:
    facts: dict[str, Any] = {
        "method": "POST",
        "path": "/v1/chat/completions",
        "template": "/v1/chat/completions",
        "status": 200,
        "error_code": "",
        "request_id": b"chatcmpl-1",
        "worker": "http://w",
        "secs": 0.0015,
    }
    log.record(**{**facts, **changes})


def test_a_request_is_one_line_of_text() -> None:
    written = Written()
    log = RequestLog("info", False, written)
    record(log, status=503, error_code="no_available_workers", worker="")
    log.flush()
    line = written.text[20:]
    assert line == (
        "ERROR smgproxy.request: POST /v1/chat/completions 503 1500us "
        "request_id=chatcmpl-1 worker=- error_code=no_available_workers\n"
    )


def test_a_request_is_one_json_object() -> None:
    written = Written()
    log = RequestLog("info", True, written)
    record(log, status=404)
    log.flush()
    row = ujson.loads(written.text)
    assert (row["level"], row["status_code"], row["latency"]) == ("WARN", 404, 1500)
    assert row["target"] == "smgproxy.request"


@pytest.mark.parametrize("is_json", [False, True])
def test_what_a_client_chose_cannot_forge_a_line(is_json: bool) -> None:
    written = Written()
    log = RequestLog("info", is_json, written)
    record(log, path=HOSTILE, method="\x1b[2J")
    log.flush()
    assert written.text.count("\n") == 1
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
    log = RequestLog(level, False, Written())
    assert log.wants(template, status, "") == is_wanted


def test_a_stream_that_broke_behind_its_head_is_an_error() -> None:
    written = Written()
    log = RequestLog("error", False, written)
    assert log.wants("/v1/messages", 200, "stream_error")
    record(log, error_code="stream_error")
    log.flush()
    assert " ERROR " in written.text


def test_a_flood_does_not_wait_for_the_timer() -> None:
    written = Written()
    log = RequestLog("info", False, written)
    for _ in range(MAX_WAITING + 5):
        record(log)
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
        ("/v1/models", 499, "x", "WARN", "request failed with client error"),
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
    record(log, template=template, status=status, error_code=error_code)
    log.flush()
    row = ujson.loads(written.text)
    assert (row["level"], row["message"]) == (level, message)
    assert list(row)[:3] == ["timestamp", "level", "message"]


def test_nothing_is_written_when_nothing_happened() -> None:
    written = Written()
    RequestLog("debug", False, written).flush()
    assert written.text == ""
