"""What tests of the gateway's own answers ask and read in the same way."""

from __future__ import annotations

from typing import Any

import ujson

from smgproxy.api.replies import reason_phrase
from tests.fakes.client import Answer


def get(path: str, method: str = "GET", headers: str = "") -> bytes:
    """The bytes of a request without a body."""
    return f"{method} {path} HTTP/1.1\r\nHost: a\r\n{headers}\r\n".encode()


def error_of(answer: Answer) -> dict[str, Any]:
    """The error object of an answer, whichever dialect it speaks."""
    body = ujson.loads(answer.body)
    assert isinstance(body, dict)
    error = body["error"]
    assert isinstance(error, dict)
    return error


def check_envelope(
    answer: Answer, status: int, code: str, *, retry_after: str | None = None
) -> str:
    """An answer is an error of the gateway's own, in all its parts; the message."""
    assert (answer.status, answer.is_whole) == (status, True)
    assert answer.all("content-type") == ["application/json"]
    assert answer.all("x-smg-error-code") == [code]
    assert answer.get("retry-after") == retry_after
    assert len(answer.all("x-request-id")) == 1
    error = error_of(answer)
    message = error.pop("message")
    assert error == {"type": reason_phrase(status), "code": code, "param": None}
    assert isinstance(message, str) and message
    return message


def check_bad_body(answer: Answer, code: str | int) -> str:
    """An answer is a refusal of what a body says, in all its parts; the message."""
    assert (answer.status, answer.is_whole) == (400, True)
    assert answer.all("content-type") == ["application/json"]
    assert answer.get("x-smg-error-code") is None
    assert len(answer.all("x-request-id")) == 1
    error = error_of(answer)
    message = error.pop("message")
    assert error == {"type": "invalid_request_error", "code": code}
    assert isinstance(message, str) and message
    return message


def check_bad_text(answer: Answer) -> str:
    """An answer is a refusal in plain text; the text."""
    assert (answer.status, answer.is_whole) == (400, True)
    assert answer.all("content-type") == ["text/plain; charset=utf-8"]
    assert answer.get("x-smg-error-code") is None
    assert len(answer.all("x-request-id")) == 1
    text = answer.body.decode()
    assert text and "\n" not in text
    return text
