"""What JSON a body must be before anyone reads it, and its outline.

msgspec is strict about the grammar, but lets pass bytes that are not UTF-8 in what it
skips, keys given twice, and any depth that Python's stack allows.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Container, Iterable
from itertools import accumulate

import msgspec

from smgproxy.core.errors import BadBody

MAX_DEPTH = 127
PREFIX = "Failed to parse the request body as JSON: "

# All that tells how deep a body nests: quotes and brackets.
_MARKS = b'"[]{}'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
# Brackets as signed bytes: one level deeper, one level up.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")


class Name:
    """A key in its place: two keys of the same text are still two keys."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


# An object's keys and the raw text of their values, repeated keys included.
Outline = dict[Name, msgspec.Raw]

# The hook makes a Name of each key: type.__call__(Name, text) is Name(text).
_outline = msgspec.json.Decoder(Outline, dec_hook=type.__call__)
# A key as nearly all are spelt.
_KEY = re.compile(rb'"([A-Za-z0-9_]++)"[ \t\r\n]*+:')
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_outlines = msgspec.json.Decoder(list[Outline], dec_hook=type.__call__)


def outline_of(text: bytes | msgspec.Raw) -> Outline:
    """The outline of a JSON object that was decoded before."""
    return _outline.decode(text)


def outlines_of(text: bytes | msgspec.Raw) -> list[Outline]:
    """The outlines of an array of objects."""
    return _outlines.decode(text)


def raw_of(outline: Outline, name: str) -> msgspec.Raw:
    """The raw text of a field that is there."""
    return next(raw for key, raw in outline.items() if key.text == name)


def refuse_bad_text(body: bytes) -> None:
    """Refuse bytes that are not UTF-8. Raises BadBody."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"{PREFIX}invalid UTF-8 at byte {error.start}") from None


def refuse_deep(outline: Outline, level: int, skipped: Container[str] = ()) -> None:
    """Refuse values that nest too deeply in an object that is itself at ``level``.

    Only arrays and objects are searched, so long texts cost nothing. Raises BadBody.
    """
    for name, raw in outline.items():
        if name.text not in skipped:
            text = bytes(raw)
            if text[:1] in (b"{", b"[") and level + depth_of(text) > MAX_DEPTH:
                raise BadBody(f"{PREFIX}nested deeper than {MAX_DEPTH} levels")


def refuse_repeated(
    outline: Outline, modelled: Iterable[str], where: str = "", place: int = 0
) -> None:
    """Refuse a modelled key that is given twice, here or in ``where[place]``.

    Gateway and worker might each take another one of them for valid. Raises BadBody.
    """
    texts = [key.text for key in outline]
    if len(set(texts)) == len(texts):
        return
    for name in modelled:
        if texts.count(name) > 1:
            path = f"{where}[{place}].{name}" if where else name
            raise BadBody(f"{PREFIX}duplicate field `{path}`")


def is_plain(body: bytes, lists: Iterable[tuple[int, Iterable[bytes]]]) -> bool:
    """Whether a quick look is enough to know an object for harmless.

    Then no key is there twice, in it or in its lists' objects, and it cannot nest too
    deeply. ``lists``: how many objects each has, and their modelled keys. Every key is
    found wherever it stands; sure only when it says yes, which it does for the usual
    body: plain text in every message.
    """
    if b"\\u" in body:
        return False  # escapes may spell any key
    found = _KEY.findall(body)
    expected = len(_fields.decode(body))
    for size, keys in lists:
        for key in keys:
            count = found.count(key)
            if count and count != size:
                return False
            expected += count
    if len(found) != expected:
        return False
    # An object that nests others has a key, so this is deeper than it can be.
    return expected + body.count(b"[") < MAX_DEPTH


def has_many_brackets(body: bytes) -> bool:
    """Whether there are more opening brackets than may nest."""
    return body.count(b"{") + body.count(b"[") > MAX_DEPTH


def depth_of(body: bytes) -> int:
    """How deep well-formed JSON nests, brackets inside strings not counted."""
    if b"\\" in body:
        # Pairs of backslashes first: what is left of a run escapes the quote after it.
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    marks = body.translate(None, _OTHERS)
    bare = marks.replace(b'""', b"")
    if b'"' in bare:  # some string has brackets in it
        bare = b"".join(marks.split(b'"')[::2])
    return max(accumulate(array("b", bare.translate(_STEPS))), default=0)
