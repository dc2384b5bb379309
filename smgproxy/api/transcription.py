"""POST /v1/audio/transcriptions: the fields of its form, and the form a worker gets.

The form is rebuilt, because fields that the contract does not name must not go on
(seed: Audio Transcriptions).
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Protocol

from smgproxy.core.errors import GatewayError, Shape
from smgproxy.wire.multipart import part_head

GRANULARITIES = b"timestamp_granularities[]"
# Each counts once; the last of several wins. Workers get them in this order.
FIELDS = (b"model", b"language", b"prompt", b"response_format", b"temperature")
STREAM = b"stream"
UNNAMED = b"audio"

# Of all fields but the file; they are kept in memory, and read in one go: five
# milliseconds. A model looks at a prompt's last few hundred words.
MAX_TEXT_BYTES = 256 * 1024

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MOST_CHARACTERS_OF_A_NUMBER = 1000
_MOST_SHOWN = 40
_IS_STREAM = {"true": True, "1": True, "false": False, "0": False}


class BadForm(GatewayError):
    """A form that cannot be read, or a field of it that is missing or wrong.

    Plain text, no code (seed: Audio Transcriptions).
    """

    status = 400
    code = ""
    shape = Shape.TEXT


class File(Protocol):
    """Where the audio is kept."""

    size: int

    def clear(self) -> None:
        """Forget what was kept."""

    def write(self, data: bytes) -> None:
        """Keep the next bytes."""


class TranscriptionForm:
    """Takes a form's parts: texts are kept, the file goes to ``file``."""

    __slots__ = (
        *("file", "_fields", "_granularities", "_name", "_text"),
        *("_text_bytes", "_has_file", "_filename", "_content_type"),
    )

    def __init__(self, file: File) -> None:
        self.file = file
        self._fields: dict[bytes, str] = {}
        self._granularities: list[str] = []
        self._name = b""
        self._text: bytearray | None = None
        self._text_bytes = 0
        self._has_file = False
        self._filename: bytes | None = None
        self._content_type: bytes | None = None

    # -- what the reader says --------------------------------------------------------

    def on_part(
        self, name: bytes, filename: bytes | None, content_type: bytes | None
    ) -> None:
        """Parts.on_part"""
        if name == b"timestamp_granularities":
            name = GRANULARITIES
        self._name = name
        self._text = None
        if name == b"file":
            self.file.clear()
            self._has_file = True
            self._filename, self._content_type = filename, content_type
        elif name in FIELDS or name in (STREAM, GRANULARITIES):
            self._text = bytearray()

    def on_data(self, data: bytes) -> None:
        """Parts.on_data. Raises BadForm."""
        if self._text is not None:
            self._text_bytes += len(data)
            if self._text_bytes > MAX_TEXT_BYTES:
                raise BadForm(
                    f"Form field {self._name.decode()!r} is too long: without the "
                    f"file, a form may have {MAX_TEXT_BYTES} bytes"
                )
            self._text += data
        elif self._name == b"file":
            self.file.write(data)

    def on_part_end(self) -> None:
        """Parts.on_part_end"""
        if self._text is None:
            self._name = b""
            return
        text = self._text.decode("utf-8", "replace")
        self._text = None
        if self._name == GRANULARITIES:
            self._granularities.append(text)
        else:
            self._fields[self._name] = text

    # -- what is made of it ----------------------------------------------------------

    @property
    def model(self) -> str:
        """The model as it was named."""
        return self._fields[b"model"]

    @property
    def prompt(self) -> str:
        """The text that guides the transcript."""
        return self._fields.get(b"prompt", "")

    @property
    def is_stream(self) -> bool:
        """Whether the transcript is to be streamed, as far as is known and checked."""
        return self._fields.get(STREAM) == "true"

    @property
    def is_at_file(self) -> bool:
        """Whether it is the file that comes in, and of all before it nothing amiss."""
        if self._name != b"file":
            return False
        try:
            self.check()
        except BadForm:
            return False
        return True

    def check(self) -> None:
        """Hold what has come of the form to the contract. Raises BadForm."""
        if not self._has_file:
            raise BadForm("Missing form field 'file'")
        if not self.file.size:
            raise BadForm("The uploaded file must not be empty")
        fields = self._fields
        model = fields.get(b"model", "").strip()
        if not model:
            raise BadForm("Missing form field 'model'")
        fields[b"model"] = model
        if b"temperature" in fields:
            fields[b"temperature"] = _temperature(fields[b"temperature"])
        if STREAM in fields:
            fields[STREAM] = _stream(fields[STREAM])

    def head(self, boundary: bytes) -> bytes:
        """What stands before the file, for a worker."""
        filename = UNNAMED if self._filename is None else self._filename
        head = part_head(b"file", filename, self._content_type)
        return b"--%b\r\n%b" % (boundary, head)

    def tail(self, model: str, boundary: bytes) -> bytes:
        """What stands behind it: all other fields, of a form that is whole."""
        delimiter = b"\r\n--" + boundary
        pairs = [(b"model", model)]
        pairs += [(n, self._fields[n]) for n in FIELDS[1:] if n in self._fields]
        pairs += [(GRANULARITIES, text) for text in self._granularities]
        if STREAM in self._fields:
            pairs.append((STREAM, self._fields[STREAM]))
        fields = [
            b"%b\r\n%b%b" % (delimiter, part_head(name), text.encode())
            for name, text in pairs
        ]
        return b"".join((*fields, delimiter, b"--\r\n"))


def _temperature(text: str) -> str:
    """The shortest decimal of a temperature within its range."""
    number = text.strip()
    if not number:
        raise BadForm("Invalid temperature: must be a number, not empty")
    if len(number) > _MOST_CHARACTERS_OF_A_NUMBER or not _NUMBER.fullmatch(number):
        raise BadForm(f"Invalid temperature: {_shown(number)} is not a number")
    value = float(number)
    if not 0 <= value <= 1:
        raise BadForm(
            f"Invalid temperature: {_shown(number)} is not between 0.0 and 1.0"
        )
    # Without an exponent; adding zero makes -0.0 a plain one.
    text = format(Decimal(repr(value + 0.0)), "f")
    return text.removesuffix(".0")


def _stream(text: str) -> str:
    """``true`` or ``false``."""
    is_stream = _IS_STREAM.get(text.lower())
    if is_stream is None:
        raise BadForm(f"Invalid stream: {_shown(text)}, expected true, false, 1 or 0")
    return "true" if is_stream else "false"


def _shown(text: str) -> str:
    return ascii(text[:_MOST_SHOWN])
