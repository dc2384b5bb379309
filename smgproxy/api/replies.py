"""Every body the gateway writes itself, and the error envelopes of both dialects."""

from __future__ import annotations

import http
from typing import Any

from smgproxy.core.errors import GatewayError, Shape
from smgproxy.core.message import Headers, ResponseHead
from smgproxy.wire.json import dumps

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class Reply:
    """A whole answer of the gateway's own; no ``content_type``, no such header."""

    __slots__ = ("status", "body", "content_type", "headers")

    def __init__(
        self,
        status: int,
        body: bytes,
        content_type: bytes = JSON,
        headers: Headers | None = None,
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers or []

    def head(self) -> ResponseHead:
        """The head this answer is sent with, request id aside."""
        headers: Headers = []
        if self.body and self.content_type:
            headers.append((b"content-type", self.content_type))
        headers += self.headers
        return ResponseHead(self.status, headers, len(self.body))


def json_reply(status: int, value: Any, headers: Headers | None = None) -> Reply:
    """A JSON answer."""
    return Reply(status, dumps(value), JSON, headers)


def text_reply(status: int, text: str) -> Reply:
    """A plain-text answer."""
    return Reply(status, text.encode(), TEXT)


def reason_phrase(status: int) -> str:
    """The phrase of a status, as the contract's ``error.type`` has it (ruling 1)."""
    if status == 413:
        return "Payload Too Large"  # Python calls it by an older or a newer name
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def error_reply(
    error: GatewayError, is_anthropic: bool = False, request_id: bytes = b""
) -> Reply:
    """The answer an error makes (seed: Error Format).

    The code header goes with the envelope only; on ``/v1/messages`` the body has
    Anthropic's shape, which names the request, and the header stays.
    """
    headers: Headers = list(error.headers)
    if error.shape is Shape.EMPTY:
        return Reply(error.status, b"", JSON, headers)
    if error.shape is Shape.TEXT:
        return Reply(error.status, error.message.encode(), TEXT, headers)
    if error.shape is Shape.ENVELOPE:
        headers.insert(0, (b"x-smg-error-code", str(error.code).encode()))
    if is_anthropic:
        kind = _ANTHROPIC_TYPES.get(
            error.status,
            "api_error" if error.status >= 500 else "invalid_request_error",
        )
        body: dict[str, Any] = {
            "type": "error",
            "error": {"type": kind, "message": error.message},
            "request_id": request_id.decode() or None,
        }
    elif error.shape is Shape.INVALID_REQUEST:
        body = {
            "error": {
                "message": error.message,
                "type": "invalid_request_error",
                "code": error.code,
            }
        }
    else:
        body = {
            "error": {
                "type": reason_phrase(error.status),
                "code": error.code,
                "message": error.message,
                "param": None,
            }
        }
    return Reply(error.status, dumps(body), JSON, headers)
