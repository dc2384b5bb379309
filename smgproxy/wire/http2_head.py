"""HTTP/2 header lists checked and made into heads, and heads made into them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from smgproxy.core.message import (
    Headers,
    RequestHead,
    ResponseHead,
    WorkerRequest,
)
from smgproxy.wire.http1 import BadMessage, check_single, length_of
from smgproxy.wire.http1_request import HeadLimits, check_host, path_of

_FIELD_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+")
# RFC 9113 section 8.2.1: no NUL, CR or LF, no blank at either edge; like the other
# reader, no other control character either.
_FIELD_VALUE = re.compile(rb"(?:[!-~\x80-\xff](?:[\t -~\x80-\xff]*[!-~\x80-\xff])?)?")
_METHOD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_SCHEMES = frozenset((b"http", b"https"))
# Section 8.2.2: how a hop of HTTP/1.1 is managed has no place here.
_FORBIDDEN = frozenset(
    (
        b"connection",
        b"proxy-connection",
        b"keep-alive",
        b"transfer-encoding",
        b"upgrade",
    )
)
# Workers are ours and few; this only stops a broken one from eating memory.
_MAX_RESPONSE_FIELDS = 256
_STATUS = re.compile(rb"[1-9][0-9][0-9]")
_PSEUDO = frozenset((b":method", b":scheme", b":authority", b":path", b":protocol"))
HeaderList = Iterable[tuple[bytes, bytes]]


def request_head(
    fields: HeaderList, *, has_body: bool, limits: HeadLimits
) -> RequestHead:
    """The head a header list stands for (RFC 9113 section 8.3.1).

    Raises BadMessage: with status 400 for a malformed request, which is a stream error
    (section 8.1.1); with 414 or 431 for one that is only too long.
    """
    pseudo: dict[bytes, bytes] = {}
    headers: Headers = []
    for name, value in fields:
        if _FIELD_VALUE.fullmatch(value) is None:
            raise BadMessage("malformed field value")
        if name[:1] == b":":
            if headers or name in pseudo or name not in _PSEUDO:
                raise BadMessage("misplaced pseudo-header")
            pseudo[name] = value
        else:
            if _FIELD_NAME.fullmatch(name) is None:
                raise BadMessage("malformed field name")
            if name in _FORBIDDEN or (name == b"te" and value.lower() != b"trailers"):
                raise BadMessage("field of another protocol version")
            headers.append((name, value))
    if len(headers) > limits.max_header_count:
        raise BadMessage("too many header fields", 431)
    return _head(pseudo, headers, has_body, limits)


def _head(
    pseudo: dict[bytes, bytes], headers: Headers, has_body: bool, limits: HeadLimits
) -> RequestHead:
    method, authority = pseudo.get(b":method"), pseudo.get(b":authority")
    if not method or _METHOD.fullmatch(method) is None:
        raise BadMessage("malformed method")
    target, query = _target(pseudo, method, limits)
    head = RequestHead(method.decode("ascii"), target, query, headers, is_http2=True)
    head.upgrade = pseudo.get(b":protocol", b"").lower()
    first = head.first
    if len(first) != len(headers):
        check_single(headers, b"content-length", b"host")
    _check_authority(authority, first.get(b"host"))
    length = first.get(b"content-length")
    if length is not None:
        head.content_length = length_of(length)
        if head.content_length and not has_body:
            raise BadMessage("a length without a body")
    elif has_body:
        head.content_length = None
    expect = first.get(b"expect")
    if expect is not None:
        head.expects_continue = expect.lower() == b"100-continue"
    return head


def _target(
    pseudo: dict[bytes, bytes], method: bytes, limits: HeadLimits
) -> tuple[str, str]:
    """Path and query; a CONNECT has neither, and is known by its authority.

    Unless it names the protocol it is for (RFC 8441 section 4).
    """
    path, scheme = pseudo.get(b":path"), pseudo.get(b":scheme")
    is_extended = b":protocol" in pseudo
    if is_extended and method != b"CONNECT":
        raise BadMessage("a protocol without CONNECT")
    if method == b"CONNECT" and not is_extended:
        authority = pseudo.get(b":authority")
        if path is not None or scheme is not None or not authority:
            raise BadMessage("malformed CONNECT")
        return authority.decode("latin-1"), ""
    if scheme is None or scheme.lower() not in _SCHEMES:
        raise BadMessage("malformed scheme")
    if not path:
        raise BadMessage("no path")
    if len(path) > limits.max_request_line_bytes:
        raise BadMessage("request target is too long", 414)
    return path_of(path, method == b"OPTIONS")


def _check_authority(authority: bytes | None, host: bytes | None) -> None:
    """One of them must be there, and two must agree (section 8.3.1)."""
    if not authority and not host:
        raise BadMessage("authority is missing")
    if authority is not None:
        check_host(authority)
    if host is not None:
        check_host(host)
        if authority is not None and authority.lower() != host.lower():
            raise BadMessage("host and authority differ")


def check_trailers(fields: HeaderList) -> None:
    """Refuse trailers that are malformed; good ones are dropped. Raises BadMessage."""
    for name, value in fields:
        if (
            _FIELD_NAME.fullmatch(name) is None
            or _FIELD_VALUE.fullmatch(value) is None
            or name in _FORBIDDEN
        ):
            raise BadMessage("malformed trailer")


def response_fields(head: ResponseHead, date: bytes | None) -> Headers:
    """A response head as a header list; ``date`` is added where it has none."""
    fields: Headers = [(b":status", b"%d" % head.status), *head.headers]
    if head.length is not None and head.status not in (204, 304):
        fields.append((b"content-length", b"%d" % head.length))
    if date is not None and head.get(b"date") is None:
        fields.append((b"date", date))
    return fields


def request_fields(request: WorkerRequest, authority: bytes, scheme: bytes) -> Headers:
    """A request's header list as a worker gets it: the contract's order."""
    return [
        (b":method", request.method),
        (b":scheme", scheme),
        (b":authority", authority),
        (b":path", request.path),
        *request.headers,
        (b"accept", b"*/*"),
    ]


def response_head(fields: HeaderList) -> ResponseHead:
    """The head that a worker's header list stands for (RFC 9113 section 8.3.2).

    One with a status below 200 is interim. Raises BadMessage.
    """
    status = b""
    headers: Headers = []
    for name, value in fields:
        if _FIELD_VALUE.fullmatch(value) is None:
            raise BadMessage("malformed field value")
        if name[:1] == b":":
            if headers or status or name != b":status":
                raise BadMessage("misplaced pseudo-header")
            if _STATUS.fullmatch(value) is None:
                raise BadMessage("malformed status")
            status = value
        else:
            if _FIELD_NAME.fullmatch(name) is None:
                raise BadMessage("malformed field name")
            if name in _FORBIDDEN:
                raise BadMessage("field of another protocol version")
            headers.append((name, value))
    if not status or status == b"101":
        raise BadMessage("no status that there is")
    if len(headers) > _MAX_RESPONSE_FIELDS:
        raise BadMessage("too many response header fields")
    return ResponseHead(int(status), headers, _response_length(status, headers))


def _response_length(status: bytes, headers: Headers) -> int | None:
    first = dict(headers[::-1])
    if len(first) != len(headers):
        check_single(headers, b"content-length")
    length = first.get(b"content-length")
    size = None if length is None else length_of(length)
    return 0 if status in (b"204", b"304") else size
