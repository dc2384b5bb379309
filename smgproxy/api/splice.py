"""Edits of a body with very many keys, in steps; see edits.py for the usual one."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple

import msgspec

from smgproxy.api.edits import FlatEdits
from smgproxy.api.shape import KEY, OPEN, TOKEN, TOKENS_A_STEP, name_of

_SPACE = b" \t\r\n"


class Span(NamedTuple):
    """Where a field of a body is: its key, its value, the comma or brace behind it."""

    name: str
    begin: int
    value: int
    end: int


def spliced(body: bytes, edits: FlatEdits) -> Generator[None, None, bytes]:
    """The body with its edits made; added fields stand last.

    ``body`` is an object that was decoded before. What no edit touches stays as it is,
    byte by byte, but for space at the end.
    """
    spans = yield from _spans(body, edits)
    pieces: list[bytes] = []
    done = 0
    for name, begin, value, end in spans:
        new = edits[name]
        pieces.append(body[done : begin if new is None else value])
        pieces.append(new or b"")
        # A field that goes takes its comma along; the last has none behind it.
        done = end + 1 if new is None and body[end] == ord(",") else end
    close = body.rindex(b"}")
    fields = b"".join([*pieces, body[done:close]]).rstrip(_SPACE).removesuffix(b",")
    given = {span.name for span in spans}
    added = [
        msgspec.json.encode(name) + b":" + value
        for name, value in edits.items()
        if value is not None and name not in given
    ]
    start = [] if fields.lstrip(_SPACE) == b"{" and added else [fields]
    return (b"" if start else b"{") + b",".join([*start, *added]) + b"}"


def _spans(body: bytes, edits: FlatEdits) -> Generator[None, None, list[Span]]:
    """Where the fields are that are edited, in order."""
    found: list[Span] = []
    last: tuple[str, int, int] | None = None
    level, left = 0, TOKENS_A_STEP
    for token in TOKEN.finditer(body):
        left -= 1
        if not left:
            left = TOKENS_A_STEP
            yield
        kind = token.lastindex
        if kind == KEY and level == 1:
            begin = token.start()
            if last is not None:
                found.append(Span(*last, body.rindex(b",", last[2], begin)))
                last = None
            name = name_of(token[1])
            if name in edits:
                # A list's bracket is its value's.
                last = name, begin, token.end(KEY) - len(token[3])
        elif kind is None:
            level += 1 if body[token.start()] == OPEN else -1
    if last is not None:
        found.append(Span(*last, body.rindex(b"}")))
    return found
