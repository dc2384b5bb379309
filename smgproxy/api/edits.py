"""Changing a body at its top level, everything else as the client wrote it.

An edit replaces the raw text of one field, adds it, or takes it away (None). Numbers,
escapes, key order and unknown fields of what no edit touches survive, because nothing
of it is decoded and written again.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Raw

from smgproxy.api.strict import Outline, outline_of, outlines_of

Edits = dict[str, bytes | None]

_encode = msgspec.json.encode


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
    messages: Raw, keeps_tools: Iterable[str], *, moves_root: bool
) -> bytes:
    """The messages without ``tools`` on roles that have none to declare.

    ``moves_root``: ``root`` messages go to the front, in order, as ``system`` ones.
    """
    first: list[bytes] = []
    rest: list[bytes] = []
    texts = msgspec.json.decode(messages, type=list[Raw])
    for text, outline in zip(texts, outlines_of(messages), strict=True):
        role = next(
            msgspec.json.decode(raw, type=str)
            for name, raw in outline.items()
            if name.text == "role"
        )
        edits: Edits = {}
        if role == "root" and moves_root:
            edits["role"] = b'"system"'
        if role not in keeps_tools and any(name.text == "tools" for name in outline):
            edits["tools"] = None
        place = first if "role" in edits else rest
        place.append(rebuilt(outline, edits) if edits else bytes(text))
    return b"[" + b",".join(first + rest) + b"]"


def object_edited(outline: Outline, name: str, edits: Edits) -> bytes:
    """The object under ``name`` with its edits made; absent or null, it is empty."""
    inner: Outline = {}
    for key, raw in outline.items():
        if key.text == name and bytes(raw) != b"null":
            inner = outline_of(raw)
    return rebuilt(inner, edits)
