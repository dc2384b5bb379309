"""The errors a request can end in, as values: status, code, message, headers.

Rooms raise these; dispatch/serve.py alone turns them into bytes, by api/replies.py.
"""

from __future__ import annotations

from enum import Enum


class Shape(Enum):
    """Which body an error is written with (seed: Error Format)."""

    ENVELOPE = "envelope"  # {"error": {type, code, message, param}} + X-SMG-Error-Code
    INVALID_REQUEST = "invalid_request"  # {"error": {message, type, code}}, no header
    EMPTY = "empty"
    TEXT = "text"  # the message alone


class GatewayError(Exception):
    """An answer the gateway makes itself because a request cannot be served.

    ``code`` is the contract's error code (a number for validation failures, as the
    contract has it). ``headers`` are extra response headers, lower-case names.
    """

    status = 500
    code: str | int = "internal_error"
    shape = Shape.ENVELOPE

    def __init__(
        self, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.headers = headers


# -- the client's fault -------------------------------------------------------------


class BadBody(GatewayError):
    """The body is not JSON, not the schema's, or not labelled as JSON."""

    status = 400
    code = "json_parse_error"
    shape = Shape.INVALID_REQUEST


class InvalidField(GatewayError):
    """A field's range, a cross-field rule or a profile's rule fails."""

    status = 400
    code = 400
    shape = Shape.INVALID_REQUEST


class BadQuery(GatewayError):
    """A query that lacks what the route needs, or says it twice."""

    status = 400
    code = ""
    shape = Shape.TEXT


class BadUpgrade(GatewayError):
    """A request for a WebSocket that is no opening handshake (RFC 6455 4.2.1)."""

    status = 400
    code = ""
    shape = Shape.TEXT

    def __init__(self, message: str) -> None:
        super().__init__(message, ((b"sec-websocket-version", b"13"),))


class BadCall(GatewayError):
    """What a realtime call was offered with is not complete (seed: Realtime API)."""

    status = 400

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Unauthorized(GatewayError):
    """No key, or not one that opens this route: nothing but the challenge.

    The contract gives it no code and no body (ruling 1); RFC 9110 15.5.2 asks for the
    challenge, RFC 6750 section 3 for its ``error`` when a wrong token was sent.
    """

    status = 401
    code = ""
    shape = Shape.EMPTY

    def __init__(self, realm: bytes, is_wrong: bool = False) -> None:
        challenge = b'Bearer realm="%s"' % realm
        if is_wrong:
            challenge += b', error="invalid_token"'
        super().__init__("", ((b"www-authenticate", challenge),))


class AdminRequired(GatewayError):
    """A control-plane key whose role does not reach this far (ruling 24)."""

    status = 403
    code = ""
    shape = Shape.TEXT

    def __init__(self) -> None:
        super().__init__("Admin role required for this control plane operation")


class UnknownUrl(GatewayError):
    """No route has this path."""

    status = 404
    code = "unknown_url"


class MethodNotAllowed(GatewayError):
    """The path exists, the method does not."""

    status = 405
    code = "method_not_allowed"


class BodyTooLarge(GatewayError):
    """A request body is longer than --max-payload-size."""

    status = 413
    code = "request_body_too_large"

    def __init__(self) -> None:
        super().__init__("Request body exceeded the payload limit (max_payload_size)")


class BodyStalled(GatewayError):
    """The client stopped sending its body for --stream-body-stall-timeout-secs."""

    status = 408
    code = "request_body_stalled"

    def __init__(self, secs: float) -> None:
        super().__init__(
            f"No request body bytes arrived from the client for {secs:g} seconds"
        )


class BodyAborted(GatewayError):
    """The client's upload broke off, or its framing turned out to be broken."""

    status = 400
    code = "request_body_aborted"

    def __init__(self) -> None:
        super().__init__("The request body stream failed before it was fully forwarded")


class TenantRateLimited(GatewayError):
    """The tenant's budget does not cover the request now (seed: Rate Limiting).

    ``retry_after`` is in whole seconds; None: no waiting will ever help.
    """

    status = 429
    code = "tenant_rate_limit_exceeded"

    def __init__(self, retry_after: int | None) -> None:
        wait = () if retry_after is None else ((b"retry-after", b"%d" % retry_after),)
        super().__init__("Tenant rate limit exceeded for this request", wait)


# -- nobody to serve it -------------------------------------------------------------


class ModelNotFound(GatewayError):
    """No registered worker serves the model."""

    status = 404
    code = "model_not_found"

    def __init__(self, model: str) -> None:
        super().__init__(f"No worker available for model '{model}'")


class NoAvailableWorkers(GatewayError):
    """Workers serve the model, but none of them can be picked."""

    status = 503
    code = "no_available_workers"

    def __init__(self) -> None:
        super().__init__(
            "All workers are unavailable (circuit breaker open or unhealthy)",
            ((b"retry-after", b"1"),),
        )


class OverloadShed(GatewayError):
    """Who could serve the model has too much to do, and overload is to be shed.

    ``stage``: where that was found, "selection" or "dispatch".
    """

    status = 503
    code = "worker_overload_protection_shed"

    def __init__(self, message: str, retry_secs: int, stage: str) -> None:
        super().__init__(message, ((b"retry-after", b"%d" % max(retry_secs, 1)),))
        self.stage = stage


class NoWorkers(GatewayError):
    """A route that needs any worker at all found none that is ready."""

    status = 503
    code = "no_workers"

    def __init__(self) -> None:
        super().__init__("No workers are available")


class ShuttingDown(GatewayError):
    """The grace period ended before the request was answered."""

    status = 503
    code = "gateway_shutting_down"

    def __init__(self) -> None:
        super().__init__("The gateway is shutting down", ((b"retry-after", b"1"),))


# -- refused under load -------------------------------------------------------------


class Shed(GatewayError):
    """Admission turned the request away; nothing of it reached a worker for good.

    The client may try again after ``retry_after_secs`` (seed: Rate Limiting).
    """

    retry_after_secs = 2

    def __init__(
        self, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        retry_after = (b"retry-after", b"%d" % self.retry_after_secs)
        super().__init__(message, (retry_after, *headers))


class AdmissionQueueFull(Shed):
    """No permit is free, and no place to wait for one."""

    status = 429
    code = "admission_queue_full"

    def __init__(self, is_queueing: bool) -> None:
        super().__init__(
            "admission queue is at capacity"
            if is_queueing
            else "concurrency limit reached and queuing is disabled"
        )


class AdmissionQueueTimeout(Shed):
    """No permit came free within --queue-timeout-secs."""

    status = 503
    code = "admission_queue_timeout"

    def __init__(self) -> None:
        super().__init__("timed out waiting for an admission slot")


class SchedulerQueueFull(Shed):
    """The class's queue is full, or the request-rate check found no token."""

    status = 429
    code = "scheduler_queue_full"

    def __init__(self) -> None:
        super().__init__("request queue is full for this priority class")


class SchedulerQueueTimeout(Shed):
    """No slot came free within the class's queue timeout."""

    status = 503
    code = "scheduler_queue_timeout"

    def __init__(self) -> None:
        super().__init__("timed out waiting for an admission slot")


class Preempted(Shed):
    """A request of a higher class took the slot before the first response byte."""

    status = 503
    code = "scheduler_preempted"
    retry_after_secs = 1

    def __init__(self) -> None:
        super().__init__(
            "request preempted by higher-priority traffic",
            ((b"x-smg-preempted", b"true"),),
        )


# -- the worker's fault -------------------------------------------------------------


class UpstreamError(GatewayError):
    """An attempt at a worker failed.

    ``is_resendable``: not one byte of a response was seen and it was no timeout, so
    the same bytes may be sent to the same worker once more.
    ``cause`` is the short text used in a stream's error event.
    """

    code = "call_upstream_request_error"
    is_resendable = False

    def __init__(
        self,
        message: str,
        cause: str = "",
        headers: tuple[tuple[bytes, bytes], ...] = (),
    ) -> None:
        super().__init__(message, headers)
        self.cause = cause or message


class ConnectFailed(UpstreamError):
    """No connection to the worker came about (refused, unreachable, too slow)."""

    code = "call_upstream_connection_failed"
    is_resendable = True


class SendFailed(UpstreamError):
    """The worker closed or reset the connection before any response byte."""

    is_resendable = True


class SendUnseen(SendFailed):
    """The worker ended its connection, and said that it had not looked at the request
    (RFC 9113 section 6.8)."""


class ReplyBroken(UpstreamError):
    """The worker's connection broke inside its response."""


class ReplyMalformed(UpstreamError):
    """The worker's bytes are no unambiguous HTTP response (rulings 14 and 32)."""

    status = 502


class ReplyCutShort(UpstreamError):
    """A response that was to be relayed whole ended early."""

    code = "read_response_body_failed"


class ReplyTooLarge(UpstreamError):
    """A response that was to be relayed whole is longer than --max-payload-size."""

    status = 502
    code = "upstream_response_too_large"


class UpstreamTimeout(UpstreamError):
    """The request timeout ran out before the worker's response was complete."""

    status = 504
    code = "call_upstream_timeout"


class FirstByteTimeout(UpstreamTimeout):
    """No response head came within --first-byte-timeout-secs."""

    def __init__(self, url: str, secs: float) -> None:
        super().__init__(f"Worker {url} sent no response within {secs:g} seconds")


class UploadTimeout(UpstreamTimeout):
    """It ran out while the worker waited for its client: not the worker's fault."""
