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

import msgspec

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
# How often empty pairs of brackets are taken away, two levels each time.
_PEELED = 3
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


def has_spaced_keys(body: bytes) -> bool:
    """Whether a key may have space before its colon; sure only when it has not."""
    # A search for one byte costs a tenth of one for two, and lines are seldom broken.
    # (`in` would try each as a number first, which takes as long as the search.)
    find = body.find
    return find(b" :") >= 0 or (
        (find(b"\n") >= 0 or find(b"\t") >= 0 or find(b"\r") >= 0)
        and (find(b"\n:") >= 0 or find(b"\t:") >= 0 or find(b"\r:") >= 0)
    )


def has_more(body: bytes, bracket: bytes, most: int) -> bool:
    """Whether there are more of an opening bracket than so many.

    While they are few, to find them takes a tenth of the time of counting them.
    """
    place = -1
    while most >= 0:
        place = body.find(bracket, place + 1)
        if place < 0:
            return False
        most -= 1
    return True


def refuse_deep(body: bytes) -> None:
    """Refuse JSON that nests too deeply, or has too many objects. Raises BadBody."""
    for _ in deep_steps(body):
        pass


def deep_steps(body: bytes) -> Generator[None, None, None]:
    """The same in steps; brackets inside strings are not counted."""
    if b"\\" in body:
        # Pairs of backslashes first: what is left of a run escapes the quote after it.
        body = body.replace(b"\\\\", b"")
        yield
        body = body.replace(b'\\"', b"")
        yield
    marks = body.translate(None, _OTHERS)
    if marks.count(b"{") + marks.count(b"[") <= MAX_DEPTH:
        return
    level = objects = begin = 0
    while begin < len(marks):
        yield
        end = begin + _MARKS_A_STEP
        if marks.count(b'"', begin, end) % 2:  # not inside a string
            end = marks.find(b'"', end) + 1 or len(marks)
        brackets = _outside_strings(marks[begin:end])
        objects += brackets.count(b"{")
        if objects > MAX_OBJECTS:
            raise BadBody(f"{PREFIX}has more than {MAX_OBJECTS} objects")
        left = brackets
        for _ in range(_PEELED):  # pairs that nothing is in, so that others are such
            left = left.replace(b"{}", b"").replace(b"[]", b"")
        opened = left.count(b"{") + left.count(b"[")
        if level + opened + 2 * _PEELED > MAX_DEPTH:  # it could be too deep: count
            levels = array("b", brackets.translate(_LEVELS))
            if max(accumulate(levels, initial=level)) > MAX_DEPTH:
                raise BadBody(f"{PREFIX}nested deeper than {MAX_DEPTH} levels")
        level += 2 * opened - len(left)
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


_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.encode
_look = json.JSONDecoder(
    object_pairs_hook=_note, parse_int=_skip, parse_float=_skip
).decode


def has_repeats(body: bytes, keys: int) -> bool:
    """Whether any object at all has a key twice, of JSON that was decoded before.

    ``keys``: how often `":` stands in it, if that may be trusted, else -1.
    """
    # What is decoded and encoded again has lost repeated keys; but a quote or a colon
    # that was spelled as \\u.... would count for one.
    if keys >= 0 and b"\\u" not in body:
        try:
            return _encode(_decode(body)).count(b'":') < keys
        except (msgspec.MsgspecError, OverflowError):
            pass  # a number beyond 64 bits
    try:
        _look(body.decode())
    except _Repeated:
        return True
    return False
