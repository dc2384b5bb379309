"""Bodies the gateway writes itself, and both dialects' error envelopes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smgproxy.api.replies import (
    Reply,
    error_reply,
    json_reply,
    reason_phrase,
    text_reply,
)
from smgproxy.core.errors import (
    AdminRequired,
    BadBody,
    BodyStalled,
    BodyTooLarge,
    GatewayError,
    InvalidField,
    MethodNotAllowed,
    ModelNotFound,
    NoAvailableWorkers,
    ReplyMalformed,
    Shape,
    TenantRateLimited,
    Unauthorized,
    UnknownUrl,
    UpstreamTimeout,
)


def _body(reply: Reply) -> Any:
    return json.loads(reply.body)


def test_a_json_reply_says_what_it_is_and_how_long() -> None:
    head = json_reply(202, {"a": "ä/"}, [(b"location", b"/x")]).head()
    assert head.status == 202
    assert head.headers == [
        (b"content-type", b"application/json"),
        (b"location", b"/x"),
    ]
    assert head.length == len('{"a":"ä/"}'.encode())


def test_a_text_reply_is_plain_text() -> None:
    reply = text_reply(503, "No models available")
    assert reply.body == b"No models available"
    assert reply.head().get(b"content-type") == b"text/plain; charset=utf-8"


def test_an_empty_reply_has_no_type() -> None:
    head = Reply(200, b"").head()
    assert head.headers == []
    assert head.length == 0


@pytest.mark.parametrize(
    ("error", "status", "phrase", "code"),
    [
        (UnknownUrl("m"), 404, "Not Found", "unknown_url"),
        (MethodNotAllowed("m"), 405, "Method Not Allowed", "method_not_allowed"),
        (ModelNotFound("x"), 404, "Not Found", "model_not_found"),
        (NoAvailableWorkers(), 503, "Service Unavailable", "no_available_workers"),
        (BodyStalled(300), 408, "Request Timeout", "request_body_stalled"),
        (ReplyMalformed("m"), 502, "Bad Gateway", "call_upstream_request_error"),
        (UpstreamTimeout("m"), 504, "Gateway Timeout", "call_upstream_timeout"),
        (GatewayError("m"), 500, "Internal Server Error", "internal_error"),
    ],
)
def test_envelope_has_phrase_code_and_header(
    error: GatewayError, status: int, phrase: str, code: str
) -> None:
    reply = error_reply(error)
    assert reply.status == status
    assert _body(reply) == {
        "error": {
            "type": phrase,
            "code": code,
            "message": error.message,
            "param": None,
        }
    }
    assert reply.head().get(b"x-smg-error-code") == code.encode()
    assert reply.head().get(b"content-type") == b"application/json"


@pytest.mark.parametrize(
    ("error", "code"),
    [(BadBody("not JSON"), "json_parse_error"), (InvalidField("too hot"), 400)],
)
def test_validation_errors_have_a_shape_of_their_own_and_no_header(
    error: GatewayError, code: str | int
) -> None:
    reply = error_reply(error)
    assert reply.status == 400
    assert _body(reply) == {
        "error": {
            "message": error.message,
            "type": "invalid_request_error",
            "code": code,
        }
    }
    assert reply.head().get(b"x-smg-error-code") is None


def test_an_error_without_a_body_is_empty() -> None:
    class Unauthorized(GatewayError):
        status = 401
        shape = Shape.EMPTY

    reply = error_reply(Unauthorized("no key"))
    assert (reply.status, reply.body) == (401, b"")
    assert reply.head().headers == []


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadBody("m"), "invalid_request_error"),
        (ModelNotFound("x"), "not_found_error"),
        (MethodNotAllowed("m"), "invalid_request_error"),
        (BodyTooLarge(), "request_too_large"),
        (NoAvailableWorkers(), "overloaded_error"),
        (ReplyMalformed("m"), "api_error"),
        (UpstreamTimeout("m"), "timeout_error"),
    ],
)
def test_messages_route_has_the_anthropic_shape(error: GatewayError, kind: str) -> None:
    reply = error_reply(error, is_anthropic=True, request_id=b"msg_1")
    assert reply.status == error.status
    assert _body(reply) == {
        "type": "error",
        "error": {"type": kind, "message": error.message},
        "request_id": "msg_1",
    }


def test_the_anthropic_shape_keeps_the_code_header() -> None:
    head = error_reply(NoAvailableWorkers(), is_anthropic=True).head()
    assert head.get(b"x-smg-error-code") == b"no_available_workers"
    assert error_reply(BadBody("m"), True).head().get(b"x-smg-error-code") is None


def test_headers_of_an_error_go_with_it() -> None:
    head = error_reply(MethodNotAllowed("m", ((b"allow", b"POST"),))).head()
    assert head.get(b"allow") == b"POST"
    assert error_reply(NoAvailableWorkers()).head().get(b"retry-after") == b"1"


def test_making_a_reply_leaves_the_error_as_it_was() -> None:
    error = NoAvailableWorkers()
    before = error.headers
    assert error_reply(error).body == error_reply(error).body
    assert error.headers == before


def test_what_a_client_sent_is_escaped_in_a_message() -> None:
    reply = error_reply(UnknownUrl('Invalid URL (GET /a"\\<b>)'))
    assert _body(reply)["error"]["message"] == 'Invalid URL (GET /a"\\<b>)'


def test_reason_phrases_are_the_standard_ones() -> None:
    assert reason_phrase(429) == "Too Many Requests"
    assert reason_phrase(299) == "Error"


@pytest.mark.parametrize("is_anthropic", [False, True])
def test_a_missing_key_is_a_challenge_and_nothing_else(is_anthropic: bool) -> None:
    reply = error_reply(Unauthorized(b"data-plane"), is_anthropic)
    assert (reply.status, reply.body) == (401, b"")
    assert reply.head().headers == [(b"www-authenticate", b'Bearer realm="data-plane"')]


def test_a_role_that_is_too_low_is_told_in_plain_text() -> None:
    reply = error_reply(AdminRequired())
    assert reply.status == 403
    assert reply.body == b"Admin role required for this control plane operation"
    assert reply.head().headers == [(b"content-type", b"text/plain; charset=utf-8")]


def test_a_budgets_refusal_has_the_time_to_wait_if_there_is_one() -> None:
    head = error_reply(TenantRateLimited(7)).head()
    assert head.get(b"retry-after") == b"7"
    assert head.get(b"x-smg-error-code") == b"tenant_rate_limit_exceeded"
    assert error_reply(TenantRateLimited(None)).head().get(b"retry-after") is None
