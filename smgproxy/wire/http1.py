"""What HTTP/1.1 requests and responses share: grammar, limits, the chunked coding.

A whole head is matched against RFC 9112's ABNF before anything is made of it, so bare
CR or LF, NUL, folded lines, blanks before a colon and the like never reach code that
might be talked into accepting them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from smgproxy.core.message import Headers

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
HEAD_END = b"\r\n\r\n"

# One field line, blanks around the value left out. The possessive quantifiers keep it
# linear: hostile runs of blanks give nothing to try again.
_FIELD = re.compile(
    rb"(" + TOKEN + rb"):[ \t]*+((?:[\t -~\x80-\xff]*[!-~\x80-\xff])?+)[ \t]*+"
)
# A line feed not preceded by a carriage return, a carriage return followed by
# anything else, or a NUL: never right in a head, however much of it has come.
_BROKEN_LINES = re.compile(rb"(?<!\r)\n|\r[^\n]|\x00")

_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:[ \t]*;[\t -~\x80-\xff]*)?\r\n")
# What such a line may begin with, as far as it has come.
_SIZE_LINE_START = re.compile(
    rb"[0-9A-Fa-f]{1,16}(?:[ \t]*|[ \t]*;[\t -~\x80-\xff]*)\r?"
)
_TRAILER_LINE = re.compile(TOKEN + rb":[\t -~\x80-\xff]*\r\n")
# Lines of heads that are remembered, of one kind, and how long they are at most: too
# short for most ids, which seldom come again.
_REMEMBERED = 1024
_LONGEST_REMEMBERED = 48
# Lines that hold a secret are not: how long a look takes must tell nobody of it.
_SECRET = (b"authorization:", b"proxy-authorization:", b"cookie:", b"x-api-key:")
# Chunk extensions mean nothing to us; more than this of them is an attack.
_MAX_SIZE_LINE = 256


class BadMessage(Exception):
    """Bytes that are no unambiguous HTTP message; ``status`` hints at the answer."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


class PartialHead:
    """The bytes of a head that has not come whole.

    Looks at each byte a bounded number of times, in however small pieces they come.
    """

    __slots__ = ("data", "_scanned", "_limit")

    def __init__(self, limit_bytes: int) -> None:
        self.data = bytearray()
        self._scanned = 0
        self._limit = limit_bytes

    def take(self) -> bytes:
        """All that has come; forgotten here."""
        data = bytes(self.data)
        self.data.clear()
        self._scanned = 0
        return data

    def add(self, data: bytes) -> bytes | None:
        """The head and what lies behind it once it is whole, until then None.

        Raises BadMessage as soon as the head can no longer become a good one.
        """
        held = self.data
        held += data
        new = max(0, self._scanned - 3)
        self._scanned = len(held)
        if held.find(HEAD_END, new) >= 0:
            return self.take()
        if len(held) > self._limit:
            raise BadMessage("head is too long", 431)
        if _BROKEN_LINES.search(held, new) is not None:
            raise BadMessage("bare CR, LF or NUL in a head")
        return None


_Read = TypeVar("_Read")


class Lines(dict[bytes, _Read]):
    """What lines of heads say, read with ``read`` when they come for the first time.

    A peer sends the same few lines over and over. Too many different ones: all are
    forgotten, which takes no time worth counting from those that come again.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Callable[[bytes], _Read]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, line: bytes) -> _Read:
        read = self._read(line)
        is_short = len(line) <= _LONGEST_REMEMBERED
        if is_short and not line.lower().startswith(_SECRET):
            if len(self) >= _REMEMBERED:
                self.clear()
            self[line] = read
        return read


def _read_field(line: bytes) -> tuple[bytes, bytes]:
    found = _FIELD.fullmatch(line)
    if found is None:
        raise BadMessage("malformed header field")
    name, value = found.groups()
    return name.lower(), value


_fields = Lines(_read_field)


def fields_of(lines: list[bytes]) -> Headers:
    """The fields of a head that was split into its lines, of which the first is none.

    Names in lower case, values without edge blanks. Raises BadMessage unless every
    line is a field line to the last byte (RFC 9112 section 5).
    """
    return list(map(_fields.__getitem__, lines[1:]))


def check_single(headers: Headers, *names: bytes) -> None:
    """Refuse a head that gives one of ``names`` more than once."""
    for name in names:
        if sum(candidate == name for candidate, _ in headers) > 1:
            raise BadMessage(f"{name.decode()} given twice")


def tokens_of(value: bytes) -> list[bytes]:
    """The lower-case members of a comma-separated list."""
    members = (member.strip(b" \t") for member in value.lower().split(b","))
    return [member for member in members if member]


def joined(headers: Headers, name: bytes) -> bytes:
    """A list field's value over all its lines (RFC 9110 section 5.3)."""
    return b",".join([value for candidate, value in headers if candidate == name])


def without_nominated(headers: Headers, connection: list[bytes]) -> Headers:
    """The fields that Connection does not name as its own (RFC 9110 7.6.1)."""
    nominated = frozenset(connection)
    return [field for field in headers if field[0] not in nominated]


def length_of(value: bytes) -> int:
    """A Content-Length as a number; digits and nothing else (RFC 9110 section 8.6)."""
    if not value.isdigit() or len(value) > 18:
        raise BadMessage("content-length is not a number")
    return int(value)


def check_coding(value: bytes) -> None:
    """Refuse every Transfer-Encoding but ``chunked`` alone (ruling 14)."""
    if value.lower() != b"chunked":
        raise BadMessage("transfer coding other than chunked")


class ChunkedDecoder:
    """The chunked coding, strictly (RFC 9112 section 7.1); trailers are dropped.

    ``feed`` returns the body bytes it found and how far it read; ``is_ended`` turns
    true behind the last trailer line. Raises BadMessage.
    """

    __slots__ = ("_state", "_left", "_line", "_trailer_bytes", "_limit", "is_ended")

    _SIZE, _DATA, _DATA_END, _TRAILER = range(4)

    def __init__(self, trailer_limit_bytes: int) -> None:
        self._state = self._SIZE
        self._left = 0
        self._line = bytearray()  # the part of a line that has come
        self._trailer_bytes = 0
        self._limit = trailer_limit_bytes
        self.is_ended = False

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """Decode ``data``: the body bytes in it, and the offset behind the end."""
        pieces: list[bytes] = []
        at = 0
        end = len(data)
        while at < end and not self.is_ended:
            if self._state == self._DATA:
                piece = data[at : at + self._left]
                pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if not self._left:
                    self._state = self._DATA_END
            else:
                at = self._line_at(data, at)
        return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), at

    def _line_at(self, data: bytes, at: int) -> int:
        """Gather one line, which may lie across reads, and take it."""
        newline = data.find(b"\n", at)
        if newline < 0:
            self._line += data[at:]
            self._check_partial()
            return len(data)
        line = data[at : newline + 1]
        if self._line:
            line = bytes(self._line) + line
            self._line.clear()
        if self._state == self._SIZE:
            self._take_size(line)
        elif self._state == self._DATA_END:
            if line != b"\r\n":
                raise BadMessage("chunk data is longer than its size")
            self._state = self._SIZE
        else:
            self._take_trailer(line)
        return newline + 1

    def _check_partial(self) -> None:
        """Refuse a line that cannot end well any more, before it has ended."""
        size = len(self._line)
        if self._state == self._TRAILER:
            if self._trailer_bytes + size > self._limit:
                raise BadMessage("trailers are too long", 431)
        elif self._state == self._SIZE:
            if size > _MAX_SIZE_LINE or not _SIZE_LINE_START.fullmatch(self._line):
                raise BadMessage("malformed chunk size")
        elif self._line != b"\r":
            raise BadMessage("chunk data is longer than its size")

    def _take_size(self, line: bytes) -> None:
        matched = _SIZE_LINE.fullmatch(line)
        if matched is None or len(line) > _MAX_SIZE_LINE:
            raise BadMessage("malformed chunk size")
        self._left = int(matched[1], 16)
        self._state = self._DATA if self._left else self._TRAILER

    def _take_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        if self._trailer_bytes > self._limit:
            raise BadMessage("trailers are too long", 431)
        if line == b"\r\n":
            self.is_ended = True
        elif _TRAILER_LINE.fullmatch(line) is None:
            raise BadMessage("malformed trailer")
