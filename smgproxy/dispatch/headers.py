"""Which header fields cross the gateway, in both directions."""

from __future__ import annotations

from smgproxy.core.exchange import Exchange
from smgproxy.core.message import (
    FORWARDED_PREFIX,
    FORWARDED_TO_WORKER,
    WITHHELD_FROM_CLIENT,
    Headers,
    RequestHead,
    ResponseHead,
)
from smgproxy.dispatch.identity import is_usable
from smgproxy.fleet.worker import Worker

# The model that served, when it is a fallback (--model-fallback).
SERVED_MODEL = b"x-smg-served-model"

_IDS = frozenset((b"x-request-id", b"x-correlation-id"))
_ONE_VALUE = _IDS | {b"authorization"}


def headers_to_worker(
    head: RequestHead,
    request_id: bytes,
    worker: Worker,
    body_bytes: int | None,
    has_gateway_key: bool = False,
    content_type: bytes = b"application/json",
) -> Headers:
    """The allow-listed headers, in the client's order.

    Of ids and credentials the first value counts and alone goes on; the lines of a
    header that is a list (``tracestate``, ``anthropic-beta``) all do. A client's
    unusable ``X-Request-ID`` is replaced by the id the gateway chose, and so is an
    ``X-Correlation-ID`` that stood in for it; usable ones are the client's. The
    worker's own key goes along when the client sent no credential, or a key of this
    gateway, which says nothing to a worker with a key of its own (ruling 23). No
    ``body_bytes``, no length: the body is streamed.
    """
    headers: Headers = [(b"content-type", content_type)]
    if body_bytes is not None:
        headers.append((b"content-length", b"%d" % body_bytes))
    first = head.first
    own_key = worker.api_key
    if own_key is not None and b"authorization" in first and not has_gateway_key:
        own_key = None
    for name, value in head.headers:
        if name not in FORWARDED_TO_WORKER and not name.startswith(FORWARDED_PREFIX):
            continue
        if name in _ONE_VALUE and first[name] is not value:
            continue
        if name in _IDS and not is_usable(value):
            if name == b"x-request-id" or b"x-request-id" not in first:
                value = request_id
        if name == b"authorization" and own_key is not None:
            continue
        headers.append((name, value))
    if own_key is not None:
        headers.append((b"authorization", b"Bearer " + own_key.encode()))
    return headers


def headers_to_client(
    reply: ResponseHead, exchange: Exchange, worker: Worker
) -> Headers:
    """A worker's headers without what is hop-by-hop or the gateway's to say."""
    headers = [field for field in reply.headers if field[0] not in WITHHELD_FROM_CLIENT]
    headers += (
        (b"x-smg-routed-worker-id", worker.routed_id),
        (b"x-request-id", exchange.id),
    )
    if exchange.served_model is not None:
        headers.append((SERVED_MODEL, exchange.served_model))
    return headers
