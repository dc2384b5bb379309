"""HTTP/1.1 responses of workers, read strictly, and the bytes of requests to them."""

from __future__ import annotations

import re
from typing import Protocol

import httptools

from smgproxy.core.message import Headers, ResponseHead, WorkerRequest
from smgproxy.wire.http1 import (
    HEAD_END,
    BadMessage,
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

# A missing reason may miss its blank too; workers are known to do that.
_STATUS_LINE = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: [\t -~\x80-\xff]*)?")
# Workers are ours and few; these bounds only stop a broken one from eating memory.
_MAX_HEAD_BYTES = 256 * 1024
_MAX_HEADERS = 256
_MAX_INTERIM = 32
_field_line = b": ".join
# Lengths of bodies that no Content-Length tells.
_UNTIL_CLOSE = -1
_CHUNKED = -2
_LAST_CHUNK = b"0\r\n\r\n"


def _read_status_line(line: bytes) -> tuple[int, bool]:
    """The status, and whether it is HTTP/1.0."""
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        raise BadMessage("malformed status line")
    return int(found[2]), found[1] == b"0"


_status_lines = Lines(_read_status_line)


class ResponseEvents(Protocol):
    """Who is told what a ResponseReader finds."""

    def on_head(self, head: ResponseHead) -> None:
        """A final response begins; interim ones (1xx) are skipped."""

    def on_body(self, data: bytes, end: bool) -> None:
        """Body bytes; ``end`` exactly once for each head."""


def encode_request(
    request: WorkerRequest, authority: bytes, is_chunked: bool = False
) -> bytes:
    """A request's head as a worker gets it: the contract's order, lower-case names."""
    fields = b"\r\n".join(map(_field_line, request.headers))
    return b"%b %b HTTP/1.1\r\n%b%baccept: */*\r\nhost: %b\r\n%b\r\n" % (
        request.method,
        request.path,
        fields,
        b"\r\n" if fields else b"",
        authority,
        b"transfer-encoding: chunked\r\n" if is_chunked else b"",
    )


def sole_chunk(data: bytes) -> bytes:
    """The payload of a read that is exactly one whole chunk, else nothing.

    That is how an engine's events arrive, and it spares them the parser. Only for a
    read that begins where a chunk does; sizes of three digits at most, without
    extensions; all else is left to the parser, malformed sizes too.
    """
    line = data.find(b"\r\n", 1, 5)
    if line > 0 and data.endswith(b"\r\n"):
        size = len(data) - line - 4
        if size > 0 and data.startswith(b"%x\r" % size):
            return data[line + 2 : -2]
    return b""


class _Chunks:
    """The chunked coding of one response, read by llhttp.

    llhttp gets a head of ours that announces a close: behind the last chunk it then
    takes nothing but blank lines, so no second message can add to this one.
    """

    __slots__ = ("on_body", "is_ended", "_parser", "_tail", "_is_chunk_over")

    _HEAD = (
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    )

    def __init__(self, pieces: list[bytes]) -> None:
        self.on_body = pieces.append
        self.is_ended = False
        self._tail = b""  # the last bytes of the reads before this one
        self._is_chunk_over = False
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(self._HEAD)

    def on_chunk_header(self) -> None:
        """A chunk begins, or the trailers."""
        self._is_chunk_over = False

    def on_chunk_complete(self) -> None:
        """A chunk is over with the line end behind it."""
        self._is_chunk_over = True

    def on_message_complete(self) -> None:
        """The line behind the last chunk, or behind its trailers, has come."""
        self.is_ended = True

    def is_between(self, data: bytes) -> bool:
        """Whether the last read, ``data``, ended with a chunk's own line end.

        Behind a chunk no CR LF can come but at the end of a size line, and that would
        have begun the next chunk.
        """
        return self._is_chunk_over and data.endswith(b"\r\n")

    def feed(self, data: bytes) -> bool:
        """Read on; False when the coding is broken, or goes on behind its end."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            return False
        if not self.is_ended:
            self._tail = data[-4:] if len(data) > 3 else (self._tail + data)[-4:]
        return True

    def ends_with(self, data: bytes) -> bool:
        """Whether the last read, ``data``, ends where the body does.

        Asked when nothing but blank lines can lie behind the end. Trailers are not
        worth telling apart from them.
        """
        return (self._tail + data).endswith(_LAST_CHUNK)


class ResponseReader:
    """Reads the responses of one worker connection, one for each ``expect``.

    Raises BadMessage for what is malformed or ambiguous, after which the connection
    can only be closed. Once a response has ended, ``is_reusable`` says whether the
    connection may carry another: it may not when the worker said so, when bytes lie
    behind the end, when two framings were given, or when the end was the connection's.
    """

    __slots__ = (
        "_on",
        "_partial",
        "_is_expected",
        "_interims",
        "_may_switch",
        "_is_in_body",
        "_left",
        "_chunks",
        "_pieces",
        "is_between_chunks",
        "is_reusable",
    )

    def __init__(self, on: ResponseEvents) -> None:
        self._on = on
        self._partial = PartialHead(_MAX_HEAD_BYTES)
        self._is_expected = False  # a head is still to come
        self._interims = 0
        self._may_switch = False
        self._is_in_body = False
        self._left = 0  # body bytes to come, or _UNTIL_CLOSE, or _CHUNKED
        self._chunks: _Chunks | None = None
        self._pieces: list[bytes] = []
        # A chunk begins with the next read: ``sole_chunk`` may be tried on it.
        self.is_between_chunks = False
        self.is_reusable = True

    def expect(self, may_switch: bool = False) -> None:
        """A request was sent: a response to it may come.

        ``may_switch``: it may be a 101 to WebSocket, whose body is what follows.
        """
        self._is_expected = True
        self._may_switch = may_switch
        self._interims = 0

    def feed(self, data: bytes) -> None:
        """Read; bytes nobody asked for raise BadMessage."""
        if not self._is_in_body:
            data = self._feed_head(data)
            if not data:
                return
        left = self._left
        if left > 0:
            left -= len(data)
            if left > 0:
                self._left = left
                self._on.on_body(data, False)
                return
            if left < 0:
                self.is_reusable = False
                data = data[:left]
            self._is_in_body = False
            self._on.on_body(data, True)
        elif left == _CHUNKED:
            self._feed_chunked(data)
        else:
            self._on.on_body(data, False)

    def eof(self) -> bool:
        """The connection ended: whether that completes the response."""
        if not self._is_in_body or self._left != _UNTIL_CLOSE:
            return False
        self._is_in_body = False
        self._on.on_body(b"", True)
        return True

    def close(self) -> None:
        """Let go of what a broken-off body has left, and of the one who is told."""
        self._is_in_body = self.is_between_chunks = False
        self._on = None  # type: ignore[assignment]
        self._chunks = None
        self._pieces.clear()

    # -- bodies ----------------------------------------------------------------------

    def _feed_chunked(self, data: bytes) -> None:
        chunks, pieces = self._chunks, self._pieces
        assert chunks is not None
        is_clean = chunks.feed(data)
        end = chunks.is_ended
        self.is_between_chunks = not end and is_clean and chunks.is_between(data)
        if pieces:
            body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
        else:
            body = b""
        if end:
            self._is_in_body = False
            self._chunks = None
            if not is_clean or not chunks.ends_with(data):
                self.is_reusable = False
        if body or end:
            self._on.on_body(body, end)
        if not end and not is_clean:
            raise BadMessage("malformed chunked body")

    # -- heads -----------------------------------------------------------------------

    def _feed_head(self, data: bytes) -> bytes:
        """Take heads until a final one is whole; returns the body bytes behind it."""
        while True:
            if not self._is_expected:
                raise BadMessage("bytes without a request")
            raw, end, rest = data.partition(HEAD_END)
            if not end or self._partial.data:
                whole = self._partial.add(data)
                if whole is None:
                    return b""
                raw, end, rest = whole.partition(HEAD_END)
            if self._take_head(raw, rest):
                return rest if self._is_in_body else b""
            if not rest:
                return b""
            data = rest

    def _take_head(self, raw: bytes, rest: bytes) -> bool:
        """Take one head, all of its lines but the empty one; False: an interim one."""
        if len(raw) + len(HEAD_END) > _MAX_HEAD_BYTES:
            raise BadMessage("response head is too long")
        lines = raw.split(b"\r\n")
        status, is_http10 = _status_lines[lines[0]]
        headers = fields_of(lines)
        if len(headers) > _MAX_HEADERS:
            raise BadMessage("too many response header fields")
        if status < 200:
            self._interims += 1
            if status == 101 and self._may_switch:
                self._begin_switched(headers)
                return True
            if status == 101 or self._interims > _MAX_INTERIM:
                raise BadMessage("interim response nobody asked for")
            return False
        self._is_expected = False
        self._begin(status, is_http10, headers, bool(rest))
        return True

    def _begin(
        self, status: int, is_http10: bool, headers: Headers, has_rest: bool
    ) -> None:
        """A final head: decide where its body ends (RFC 9112 section 6.3)."""
        fields = dict(headers)
        connection = fields.get(b"connection")
        if len(fields) != len(headers):
            check_single(headers, b"content-length", b"transfer-encoding")
            connection = joined(headers, b"connection")
        length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
        left = _UNTIL_CLOSE if length is None else length_of(length)
        if coding is not None:
            check_coding(coding)
            if is_http10:
                raise BadMessage("transfer-encoding in HTTP/1.0")
            if length is not None:
                self.is_reusable = False  # who sends both is not trusted
            left = _CHUNKED  # it counts (ruling 14)
        if status == 204 or status == 304:
            left = 0
        if is_http10 or left == _UNTIL_CLOSE:
            self.is_reusable = False
        if connection:
            options = tokens_of(connection)
            if b"close" in options:
                self.is_reusable = False
            headers = without_nominated(headers, options)
        self._left = left
        self._is_in_body = left != 0
        if left == _CHUNKED:
            self._chunks = _Chunks(self._pieces)
            self.is_between_chunks = True
        self._on.on_head(ResponseHead(status, headers, left if left >= 0 else None))
        if not left:
            if has_rest:
                self.is_reusable = False
            self._on.on_body(b"", True)

    def _begin_switched(self, headers: Headers) -> None:
        """A 101: what lies behind it is no HTTP (RFC 9110 section 7.8)."""
        options = tokens_of(joined(headers, b"connection"))
        if b"upgrade" not in options or (
            tokens_of(joined(headers, b"upgrade")) != [b"websocket"]
        ):
            raise BadMessage("switched to another protocol")
        self._is_expected = False
        self.is_reusable = False
        self._is_in_body = True
        self._left = _UNTIL_CLOSE
        self._on.on_head(ResponseHead(101, headers, None))
