"""Heads of messages, the same whatever protocol carried them.

Header names are lower-case bytes, values are bytes stripped of edge blanks; both were
checked by the wire room, so they can be written out again without another look.
"""

from __future__ import annotations

Headers = list[tuple[bytes, bytes]]

# Client headers a worker may see (seed: Request Headers); x-request-id-* as well.
FORWARDED_TO_WORKER = frozenset(
    (
        b"authorization",
        b"anthropic-version",
        b"anthropic-beta",
        b"x-request-id",
        b"x-correlation-id",
        b"traceparent",
        b"tracestate",
        b"x-smg-routing-key",
    )
)
FORWARDED_PREFIX = b"x-request-id-"

# Worker headers a client never sees: hop-by-hop ones (RFC 9110 section 7.6.1), framing,
# which each hop decides anew, and names whose meaning is the gateway's own.
WITHHELD_FROM_CLIENT = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-authentication-info",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
        b"x-smg-error-code",
        b"x-smg-routed-worker-id",
        b"x-smg-served-model",
        b"x-request-id",
    )
)


class RequestHead:
    """A client's request line and header fields.

    ``first`` maps each name to its first value, the one that counts (contract: a
    repeated allowed header forwards its first value only).
    ``content_length`` is None for a chunked body; 0 when there is no body.
    """

    __slots__ = (
        "method",
        "path",
        "query",
        "is_http10",
        "is_http2",
        "headers",
        "first",
        "content_length",
        "keeps_alive",
        "expects_continue",
        "upgrade",
    )

    def __init__(
        self,
        method: str,
        path: str,
        query: str,
        headers: Headers,
        *,
        content_length: int | None = 0,
        is_http2: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.is_http10 = False
        self.is_http2 = is_http2
        self.headers = headers
        # Reversed, so that the first of repeated names is the one that stays.
        self.first = dict(headers[::-1])
        self.content_length = content_length
        self.keeps_alive = True
        self.expects_continue = False
        # The protocol that the connection, or an extended CONNECT, is to switch to;
        # in lower case, nothing in most requests.
        self.upgrade = b""


class ResponseHead:
    """A response's status and header fields, without framing.

    ``length`` is the body's length in bytes, or None when only its end will tell.
    """

    __slots__ = ("status", "headers", "length")

    def __init__(self, status: int, headers: Headers, length: int | None) -> None:
        self.status = status
        self.headers = headers
        self.length = length

    def get(self, name: bytes) -> bytes | None:
        """The first value of a header, None when it is absent."""
        for candidate, value in self.headers:
            if candidate == name:
                return value
        return None

    @property
    def is_event_stream(self) -> bool:
        """Whether its body is server-sent events."""
        content_type = self.get(b"content-type")
        return content_type is not None and content_type.lower().startswith(
            b"text/event-stream"
        )


class WorkerRequest:
    """What one attempt sends to a worker, free of framing; a body that is streamed
    is not in it. ``model`` is what it is for, if it may be shed; "": it may not.
    """

    __slots__ = ("method", "path", "headers", "body", "model")

    def __init__(
        self,
        method: bytes,
        path: bytes,
        headers: Headers,
        body: bytes = b"",
        model: str = "",
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.model = model
