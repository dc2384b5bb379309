"""What tests of the gateway's own answers ask and read in the same way."""

from __future__ import annotations

from typing import Any

import ujson

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
