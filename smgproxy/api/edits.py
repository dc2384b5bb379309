"""Changing an object at its top level, everything else as the client wrote it.

An edit replaces the raw text of one field, adds it, or takes it away (None). Numbers,
escapes, key order and unknown fields of what no edit touches survive, because nothing
of it is decoded and written again. `editing.py` chooses the way it is done.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Raw

from smgproxy.api.outline import Outline, raw_field

FlatEdits = Mapping[str, bytes | None]

_BACKSLASH = ord("\\")
_COLON = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_encode = msgspec.json.encode


def replaced(body: bytes, edits: FlatEdits) -> bytes | None:
    """A body with the value of one field replaced, all else as it is.

    None when there are more edits, or a quick look does not find the field beyond
    doubt: it must stand in the body once, as it is written usually.
    """
    if len(edits) != 1:
        return None
    [(name, value)] = edits.items()
    if value is None:
        return None
    key = b'"%b"' % name.encode()
    begin = body.find(key)
    # Letters may be spelled as \\u00.., and a quote be part of a longer key.
    if begin < 1 or body[begin - 1] == _BACKSLASH or b"\\u00" in body:
        return None
    if body.find(key, begin + 1) >= 0:
        return None
    old = raw_field(body, name)
    colon = _COLON.match(body, begin + len(key))
    if old is None or colon is None:
        return None
    place = colon.end()
    return b"".join((body[:place], value, body[place + len(memoryview(old)) :]))


def rebuilt(outline: Outline, edits: FlatEdits) -> bytes:
    """An object's text with its edits made; added fields stand last."""
    # Copied once, by the join: fields may have many megabytes.
    pieces: list[bytes | Raw] = []
    left = dict(edits)
    for name, raw in outline.items():
        text = name.text
        value: bytes | Raw | None = raw
        if text in edits:
            left.pop(text, None)
            value = edits[text]
        if value is not None:
            pieces += (b"," if pieces else b"{", _encode(text), b":", value)
    for text, value in left.items():
        if value is not None:
            pieces += (b"," if pieces else b"{", _encode(text), b":", value)
    pieces.append(b"}" if pieces else b"{}")
    return b"".join(pieces)
