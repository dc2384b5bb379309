"""What JSON a body must be, beyond what its decoder asks for.

msgspec is strict about the grammar, but lets pass bytes that are not UTF-8 in what it
skips, keys given twice, and any depth that Python's stack allows.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Generator
from itertools import accumulate
from typing import Any

from smgproxy.core.errors import BadBody

MAX_DEPTH = 127
# Twice what a list of the shortest messages has in 2 MB; each is an object to decode.
MAX_OBJECTS = 131_072
PREFIX = "Failed to parse the request body as JSON: "

# All that tells how deep a body nests: quotes and brackets.
_MARKS = b'"[]{}'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
# Brackets as signed bytes: one level deeper, one level up.
_LEVELS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
# Marks that are looked at in one step: a millisecond.
_MARKS_A_STEP = 32 * 1024


def refuse_bad_text(body: bytes) -> None:
    """Refuse bytes that are not UTF-8. Raises BadBody."""
    if body.isascii():
        return
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise BadBody(f"{PREFIX}invalid UTF-8 at byte {error.start}") from None


def refuse_deep(body: bytes) -> None:
    """Refuse JSON that nests too deeply, or has too many objects. Raises BadBody."""
    for _ in deep_steps(body):
        pass


def deep_steps(body: bytes) -> Generator[None, None, None]:
    """The same in steps; brackets inside strings are not counted."""
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    yield
    if b"\\" in body:
        # Pairs of backslashes first: what is left of a run escapes the quote after it.
        body = body.replace(b"\\\\", b"")
        yield
        body = body.replace(b'\\"', b"")
        yield
    marks = body.translate(None, _OTHERS)
    level = deepest = objects = begin = 0
    while begin < len(marks):
        yield
        end = begin + _MARKS_A_STEP
        if marks.count(b'"', begin, end) % 2:  # not inside a string
            end = marks.find(b'"', end) + 1 or len(marks)
        bare = _outside_strings(marks[begin:end])
        objects += bare.count(b"{")
        levels = array("b", bare.translate(_LEVELS))
        deepest = max(deepest, max(accumulate(levels, initial=level)))
        if deepest > MAX_DEPTH:
            raise BadBody(f"{PREFIX}nested deeper than {MAX_DEPTH} levels")
        if objects > MAX_OBJECTS:
            raise BadBody(f"{PREFIX}has more than {MAX_OBJECTS} objects")
        level += sum(levels)
        begin = end


def _outside_strings(marks: bytes) -> bytes:
    bare = marks.replace(b'""', b"")
    if b'"' in bare:  # some string has brackets in it
        bare = b"".join(marks.split(b'"')[::2])
    return bare


class _Repeated(Exception):
    """Some object has a key twice."""


def _note(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) != len(pairs):
        raise _Repeated


def _skip(number: str) -> None:
    """What is made of a number: nothing, whatever its length."""


_look = json.JSONDecoder(
    object_pairs_hook=_note, parse_int=_skip, parse_float=_skip
).decode


def has_repeats(body: bytes) -> bool:
    """Whether any object at all has a key twice, of JSON that was decoded before."""
    try:
        _look(body.decode())
    except _Repeated:
        return True
    return False
