"""Changing a body at its top level, everything else as the client wrote it.

An edit replaces the raw text of one field, adds it, or takes it away (None). Numbers,
escapes, key order and unknown fields of what no edit touches survive, because nothing
of it is decoded and written again.
"""

from __future__ import annotations

import re
from collections.abc import Container, Generator, Sequence

import msgspec
from msgspec import UNSET, Raw

from smgproxy.api.conversation import Message
from smgproxy.api.outline import Outline, outline_of, raw_field

Edits = dict[str, bytes | None]

# Each takes a microsecond, or a half.
_MESSAGES_A_STEP = 2048

_BACKSLASH = ord("\\")
_COLON = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_encode = msgspec.json.encode
_raws = msgspec.json.Decoder(list[Raw]).decode


def edited(body: bytes, edits: Edits) -> bytes:
    """A body with its edits made; added fields stand last."""
    made = replaced(body, edits)
    return rebuilt(outline_of(body), edits) if made is None else made


def replaced(body: bytes, edits: Edits) -> bytes | None:
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


def rebuilt(outline: Outline, edits: Edits) -> bytes:
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


def rebuilt_messages(
    raw: Raw, messages: Sequence[Message], keeps_tools: Container[str], moves_root: bool
) -> Generator[None, None, bytes]:
    """The messages without ``tools`` on roles that have none to declare, in steps.

    ``raw`` is their text; with ``moves_root``, ``root`` messages go to the front, in
    order, as ``system`` ones.
    """
    first: list[bytes] = []
    rest: list[bytes] = []
    texts = _raws(raw)
    for number, (text, message) in enumerate(zip(texts, messages, strict=True), 1):
        if number % _MESSAGES_A_STEP == 0:
            yield
        edits: Edits = {}
        if message.role == "root" and moves_root:
            edits["role"] = b'"system"'
        if message.tools is not UNSET and message.role not in keeps_tools:
            edits["tools"] = None
        place = first if "role" in edits else rest
        place.append(rebuilt(outline_of(text), edits) if edits else bytes(text))
    return b"[" + b",".join(first + rest) + b"]"


def object_edited(raw: Raw | None, edits: Edits) -> bytes:
    """An object with its edits made; absent or null, it is an empty one."""
    if raw is None or bytes(raw) == b"null":
        return rebuilt({}, edits)
    return rebuilt(outline_of(raw), edits)
