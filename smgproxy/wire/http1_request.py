"""HTTP/1.1 requests, read strictly: bytes in, heads and body pieces out."""

from __future__ import annotations

import dataclasses
import re
from functools import lru_cache
from typing import Protocol

from smgproxy.core.message import RequestHead
from smgproxy.core.options import flag
from smgproxy.wire.http1 import (
    HEAD_END,
    TOKEN,
    BadMessage,
    ChunkedDecoder,
    Lines,
    PartialHead,
    check_coding,
    check_single,
    fields_of,
    joined,
    length_of,
    tokens_of,
    without_nominated,
)
from smgproxy.wire.http2 import PREFACE_HEAD

_GROUP = "Request Handling"
# Method, then path and query of the usual origin-form or else the whole target, then
# the minor version: one unknown to us is served as 1.1 (RFC 9110 section 2.5).
_PATH_AND_QUERY = rb'(/[!"$->@-~]*)(?:\?([!"$-~]*))?'
_ORIGIN = re.compile(_PATH_AND_QUERY)
_REQUEST_LINE = re.compile(
    rb"(" + TOKEN + rb") (?:" + _PATH_AND_QUERY + rb"|([!-~]+)) HTTP/1\.([0-9])"
)
_PREFACE_LINE = PREFACE_HEAD.removesuffix(HEAD_END)
_OTHER_VERSION = re.compile(TOKEN + rb" [^\r\n ]+ HTTP/[02-9]\.[0-9]")
# RFC 3986 section 3.2.2 and 3.2.3, without the names of future IP versions.
_NAME = rb"(?:[A-Za-z0-9\-._~!$&'()*+,;=]++|%[0-9A-Fa-f]{2})"
_ADDRESS = rb"\[[0-9A-Fa-f:.]+\]"
# An empty Host is legal: the target's own authority counts (RFC 9112 section 3.2).
_HOST = re.compile(rb"(?:" + _NAME + rb"*+|" + _ADDRESS + rb")(?::[0-9]{0,5})?")
_AUTHORITY = rb"(?:" + _NAME + rb"++|" + _ADDRESS + rb")"
_CONNECT = re.compile(_AUTHORITY + rb":[0-9]{1,5}")
# An empty host is an error here, and so is user information (RFC 9110 section 4.2).
_ABSOLUTE = re.compile(
    rb"https?://" + _AUTHORITY + rb"(?::[0-9]{0,5})?(/[^?#]*)?(?:\?([^#]*))?",
    re.IGNORECASE,
)


@dataclasses.dataclass(frozen=True)
class HeadLimits:
    """How much of a head a client may send."""

    max_header_bytes: int = flag(
        65536,
        "--max-header-bytes",
        _GROUP,
        "largest request head in bytes, request line included; beyond it 431",
        minimum=1024,
        maximum=16 * 1024 * 1024,
    )
    max_header_count: int = flag(
        100,
        "--max-header-count",
        _GROUP,
        "most header fields a request may carry; beyond it 431",
        minimum=8,
        maximum=10000,
    )
    max_request_line_bytes: int = flag(
        16384,
        "--max-request-line-bytes",
        _GROUP,
        "longest request line in bytes; beyond it 414",
        minimum=256,
        maximum=1024 * 1024,
    )


class Http2Preface(BadMessage):
    """What came is how a client of HTTP/2 begins (RFC 9113 section 3.3).

    To be followed when nothing came before it; ``rest`` lies behind its head.
    """

    def __init__(self) -> None:
        super().__init__("HTTP/2 behind a request of HTTP/1.1", 505)
        self.rest = b""


class RequestEvents(Protocol):
    """Who is told what a RequestReader finds."""

    def on_head(self, head: RequestHead) -> None:
        """A request begins."""

    def on_body(self, data: bytes, end: bool) -> None:
        """Body bytes of the request; ``end`` exactly once for each head."""


class RequestReader:
    """Reads the requests of one connection, one at a time.

    ``feed`` stops behind the end of a message and returns what lies there: the caller
    decides when the next request may begin. Raises BadMessage, after which the
    connection can only be closed.
    """

    __slots__ = ("_on", "_limits", "_partial", "_has_skipped", "_left", "_chunked")

    def __init__(self, on: RequestEvents, limits: HeadLimits) -> None:
        self._on = on
        self._limits = limits
        self._partial = PartialHead(limits.max_header_bytes)
        self._has_skipped = False  # an empty line before the head that is awaited
        self._left = 0  # body bytes to come; 0 while a head is awaited
        self._chunked: ChunkedDecoder | None = None

    @property
    def is_mid_head(self) -> bool:
        """Whether part of a head, but not all of it, has come."""
        return bool(self._partial.data)

    def close(self) -> None:
        """Let go of the one who is told; there will be no more to tell."""
        self._on = None  # type: ignore[assignment]

    def feed(self, data: bytes) -> bytes:
        """Read up to the end of one message; returns the bytes behind it."""
        if self._chunked is not None:
            return self._feed_chunked(data)
        if self._left:
            return self._feed_sized(data)
        raw, end, rest = data.partition(HEAD_END)
        if not end or not raw or raw[0] == 13 or self._partial.data:
            whole = self._gather(data)
            if whole is None:
                return b""
            raw, end, rest = whole.partition(HEAD_END)
        try:
            head = self._parse(raw)
        except Http2Preface as preface:
            preface.rest = rest
            raise
        self._has_skipped = False
        self._on.on_head(head)
        length = head.content_length
        if length == len(rest):
            self._on.on_body(rest, True)
            return b""
        if length is None:
            self._chunked = ChunkedDecoder(self._limits.max_header_bytes)
            return self._feed_chunked(rest) if rest else b""
        self._left = length
        return self._feed_sized(rest) if rest else b""

    def _gather(self, data: bytes) -> bytes | None:
        """A head that comes in pieces, or behind an empty line; None: not whole yet."""
        partial = self._partial
        if not self._has_skipped and (partial.data or data).startswith(b"\r"):
            # A client may send one (RFC 9112 section 2.2); a second is refused.
            data = partial.take() + data
            if data.startswith(b"\r\n"):
                self._has_skipped = True
                data = data[2:]
        whole = partial.add(data)
        if whole is None:
            self._check_line(partial.data)
        return whole

    def _check_line(self, head: bytes | bytearray) -> None:
        """Refuse a request line that is too long, though it may not have ended."""
        limit = self._limits.max_request_line_bytes
        if len(head) > limit + 1 and head.find(b"\r\n", 0, limit + 2) < 0:
            raise BadMessage("request line is too long", 414)

    def _feed_sized(self, data: bytes) -> bytes:
        left = self._left
        if len(data) < left:
            self._left = left - len(data)
            self._on.on_body(data, False)
            return b""
        self._left = 0
        if len(data) == left:
            self._on.on_body(data, True)
            return b""
        self._on.on_body(data[:left], True)
        return data[left:]

    def _feed_chunked(self, data: bytes) -> bytes:
        decoder = self._chunked
        assert decoder is not None
        body, end = decoder.feed(data)
        if decoder.is_ended:
            self._chunked = None
            self._on.on_body(body, True)
            return data[end:]
        if body:
            self._on.on_body(body, False)
        return b""

    def _parse(self, raw: bytes) -> RequestHead:
        """The head in all of its lines but the empty one."""
        limits = self._limits
        if len(raw) + len(HEAD_END) > limits.max_header_bytes:
            self._check_line(raw)
            raise BadMessage("request head is too long", 431)
        lines = raw.split(b"\r\n")
        line = lines[0]
        if len(line) > limits.max_request_line_bytes:
            raise BadMessage("request line is too long", 414)
        if raw == _PREFACE_LINE and not self._has_skipped:
            raise Http2Preface()
        method, path, query, is_http10 = _request_lines[line]
        if len(lines) - 1 > limits.max_header_count:
            raise BadMessage("too many header fields", 431)
        headers = fields_of(lines)
        head = RequestHead(method, path, query, headers)
        if is_http10:
            head.is_http10 = True
            head.keeps_alive = False
        elif method == "CONNECT":
            # What follows a refused one may be meant for a tunnel, not for us.
            head.keeps_alive = False
        _take_fields(head)
        return head


def _read_request_line(line: bytes) -> tuple[str, str, str, bool]:
    """Method, path, query, and whether it is HTTP/1.0."""
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        if _OTHER_VERSION.fullmatch(line) is not None:
            raise BadMessage("HTTP version is not supported", 505)
        raise BadMessage("malformed request line")
    name, path, query, other, minor = found.groups()
    method = name.decode("ascii")
    if path is None:
        path, query = _other_target(method, other)
    elif method == "CONNECT":
        raise BadMessage("CONNECT to a path")
    query = query.decode("ascii") if query else ""
    return method, path.decode("ascii"), query, minor == b"0"


_request_lines = Lines(_read_request_line)


def _take_fields(head: RequestHead) -> None:
    """What the fields say of the message: its framing, and what follows it."""
    headers, first, is_http10 = head.headers, head.first, head.is_http10
    connection = first.get(b"connection")
    if len(first) != len(headers):
        check_single(headers, b"content-length", b"transfer-encoding", b"host")
        connection = joined(headers, b"connection")
    host = first.get(b"host")
    if host is not None:
        check_host(host)
    elif not is_http10:
        raise BadMessage("host is missing")
    length = first.get(b"content-length")
    coding = first.get(b"transfer-encoding")
    if coding is not None:
        if length is not None or is_http10:
            raise BadMessage("transfer-encoding beside content-length or in HTTP/1.0")
        check_coding(coding)
        head.content_length = None
    elif length is not None:
        head.content_length = length_of(length)
    expect = first.get(b"expect")
    if expect is not None and not is_http10:
        head.expects_continue = expect.lower() == b"100-continue"
    # The usual value says nothing new to HTTP/1.1.
    if connection and (is_http10 or connection != b"keep-alive"):
        _take_connection(head, tokens_of(connection))


def _take_connection(head: RequestHead, options: list[bytes]) -> None:
    """Whether the client stays, and the fields it names as this hop's own."""
    if b"close" in options:
        head.keeps_alive = False
    elif head.is_http10:
        head.keeps_alive = b"keep-alive" in options
    if b"upgrade" in options and not head.is_http10:
        head.upgrade = joined(head.headers, b"upgrade").lower()
    if not head.first.keys().isdisjoint(options):
        head.headers = without_nominated(head.headers, options)
        head.first = dict(head.headers[::-1])


@lru_cache(maxsize=64)  # clients call a gateway by few names
def check_host(host: bytes) -> None:
    """Refuse a Host, or an authority, that is none. Raises BadMessage."""
    if _HOST.fullmatch(host) is None:
        raise BadMessage("malformed host")


def path_of(target: bytes, may_be_asterisk: bool) -> tuple[str, str]:
    """Path and query of a target in origin-form. Raises BadMessage."""
    found = _ORIGIN.fullmatch(target)
    if found is not None:
        path, query = found.groups()
        return path.decode("ascii"), query.decode("ascii") if query else ""
    if may_be_asterisk and target == b"*":
        return "*", ""
    raise BadMessage("malformed request target")


def _other_target(method: str, target: bytes) -> tuple[bytes, bytes | None]:
    """Path and query of a target that is no origin-form (RFC 9112 section 3.2)."""
    if method == "CONNECT":
        if _CONNECT.fullmatch(target) is not None:
            return target, None
    elif method == "OPTIONS" and target == b"*":
        return target, None
    else:
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is not None:
            return absolute[1] or b"/", absolute[2]
    raise BadMessage("malformed request target")
