"""multipart/form-data (RFC 7578), read as it comes in and written; sans-IO.

The delimiters are python-multipart's to find. What it does not do is done here: a
preamble, the parameters of a header as they were sent, and noticing a form's end.
"""

from __future__ import annotations

import logging
import re
from typing import Protocol

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser

MAX_BOUNDARY_BYTES = 200
# Also of those within a file that turn out to be none. Each costs up to 7 us, so that
# one read full of them would stop the loop for 135 ms.
MAX_DELIMITERS = 1024
MAX_PART_HEADERS = 32
MAX_PART_HEADER_BYTES = 16 * 1024

_PARAMETER = re.compile(
    rb"""[;]\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s]*))""",
    re.DOTALL,
)
_ESCAPED = re.compile(rb'\\(["\\])')
# What would end the quoted string, or the header, is written as browsers write it.
_UNQUOTABLE = re.compile(rb'["\r\n\x00]')

# It warns of every malformed form; here a client is told instead.
logging.getLogger("python_multipart.multipart").setLevel(logging.CRITICAL)


class MultipartError(ValueError):
    """The bytes are no multipart/form-data; the text is for the client."""


class Parts(Protocol):
    """Takes the parts of a form, one after the other."""

    def on_part(
        self, name: bytes, filename: bytes | None, content_type: bytes | None
    ) -> None:
        """A part begins; ``filename`` and ``content_type`` are None if not given."""

    def on_data(self, data: bytes) -> None:
        """The part goes on."""

    def on_part_end(self) -> None:
        """The part is complete."""


def boundary_of(content_type: bytes | None) -> bytes:
    """The boundary that a Content-Type names. Raises MultipartError."""
    kind, _, _ = (content_type or b"").partition(b";")
    if kind.strip().lower() != b"multipart/form-data":
        raise MultipartError("Expected a Content-Type of multipart/form-data")
    boundary = parameters(content_type or b"").get(b"boundary", b"")
    if not 0 < len(boundary) <= MAX_BOUNDARY_BYTES:
        raise MultipartError("Invalid boundary for multipart/form-data")
    return boundary


class FormReader:
    """Reads one form; parts that have no name are passed over."""

    __slots__ = (
        *("_parts", "_parser", "_opening", "_before", "_is_ended"),
        *("_delimiters", "_seam", "_field", "_value", "_headers", "_name"),
        "_is_in_part",
    )

    def __init__(self, boundary: bytes, parts: Parts) -> None:
        self._parts = parts
        self._opening = b"\r\n--" + boundary
        self._delimiters = 0
        self._seam = b""  # the end of what was read, as long as a delimiter
        # A preamble's end, as long as the first delimiter may have begun in it; None
        # once that was found. One may stand at the very beginning.
        self._before: bytes | None = b"\r\n"
        self._is_ended = False
        self._is_in_part = False
        self._name: bytes | None = None
        self._field = bytearray()
        self._value = bytearray()
        self._headers: dict[bytes, bytes] = {}
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
            max_header_count=MAX_PART_HEADERS,
            max_header_size=MAX_PART_HEADER_BYTES,
        )

    def feed(self, data: bytes) -> None:
        """Read on. Raises MultipartError; what follows the form's end is ignored."""
        if self._is_ended:
            return
        if self._before is not None:
            data = self._behind_preamble(self._before + data)
        if not data:
            return
        self._look_for_delimiters(data)
        try:
            self._parser.write(data)
        except FormParserError:
            raise MultipartError(self._where()) from None

    def _look_for_delimiters(self, data: bytes) -> None:
        """Refuse very many, and space behind one.

        Nobody pads a delimiter (RFC 2046 section 5.1.1), and the parser goes through
        space byte by byte: 36 ms of a read full of it.
        """
        opening = self._opening
        found = data.count(opening)
        self._delimiters += found
        if self._delimiters > MAX_DELIMITERS:
            raise MultipartError(f"A form may have {MAX_DELIMITERS} fields at most")
        seam = self._seam + data[: len(opening) + 1]
        self._seam = (data if len(data) > len(opening) else seam)[-len(opening) :]
        for text in (seam, data) if found else (seam,):
            if opening + b" " in text or opening + b"\t" in text:
                raise MultipartError("A form's delimiter has space behind it")

    def finish(self) -> None:
        """The body is over. Raises MultipartError if the form is not."""
        if not self._is_ended:
            raise MultipartError(self._where())

    def _behind_preamble(self, data: bytes) -> bytes:
        """From the first delimiter on; nothing while there is none."""
        start = data.find(self._opening)
        if start < 0:
            self._before = data[1 - len(self._opening) :]
            return b""
        self._before = None
        return data[start + 2 :]

    def _where(self) -> str:
        if self._name is not None:
            name = self._name[:100].decode("utf-8", "replace")
            return f"Failed to read form field {name!r}: malformed or incomplete"
        return "Failed to read the next form field: malformed or incomplete form"

    # -- what the parser says --------------------------------------------------------

    def _on_part_begin(self) -> None:
        self._headers = {}
        self._name = None

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        value = bytes(self._value).strip()
        if b"\n" in value or b"\x00" in value:
            raise MultipartError(self._where())
        self._headers.setdefault(bytes(self._field).lower(), value)
        self._field.clear()
        self._value.clear()

    def _on_headers_finished(self) -> None:
        given = parameters(self._headers.get(b"content-disposition", b""))
        self._name = name = given.get(b"name")
        self._is_in_part = name is not None
        if name is not None:
            content_type = self._headers.get(b"content-type")
            self._parts.on_part(name, given.get(b"filename"), content_type)

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._is_in_part:
            self._parts.on_data(data[start:end])

    def _on_part_end(self) -> None:
        if self._is_in_part:
            self._parts.on_part_end()
        self._name = None

    def _on_end(self) -> None:
        self._is_ended = True


def part_head(
    name: bytes, filename: bytes | None = None, content_type: bytes | None = None
) -> bytes:
    """The header fields of a part, and the blank line behind them."""
    head = b'Content-Disposition: form-data; name="%b"' % _quotable(name)
    if filename is not None:
        head += b'; filename="%b"' % _quotable(filename)
    if content_type is not None:
        head += b"\r\nContent-Type: " + content_type
    return head + b"\r\n\r\n"


def _quotable(text: bytes) -> bytes:
    return _UNQUOTABLE.sub(lambda found: b"%%%02X" % found[0][0], text)


def parameters(value: bytes) -> dict[bytes, bytes]:
    """The parameters of a header's value, the first of each name."""
    found: dict[bytes, bytes] = {}
    for name, quoted, plain in _PARAMETER.findall(value):
        text = _ESCAPED.sub(rb"\1", quoted) if quoted else plain
        found.setdefault(name.lower(), text)
    return found
