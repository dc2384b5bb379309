"""What JSON a body must be before anyone reads it, and its outline.

msgspec is strict about the grammar, but lets pass bytes that are not UTF-8 in what it
skips, keys given twice, and any depth that Python's stack allows.
"""

from __future__ import annotations

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


def has_many_brackets(body: bytes) -> bool:
    """Whether there are more than MAX_DEPTH opening brackets; few are found fast."""
    left = MAX_DEPTH
    for bracket in (b"{", b"["):
        place = body.find(bracket)
        while place >= 0:
            left -= 1
            if left < 0:
                return True
            place = body.find(bracket, place + 1)
    return False


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
