"""Edits of a body, and of the objects inside it, in steps where there is much to do."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec
from msgspec import UNSET, Raw

from smgproxy.api.conversation import Message
from smgproxy.api.edits import rebuilt, replaced
from smgproxy.api.outline import outline_of, raw_field
from smgproxy.api.splice import spliced
from smgproxy.api.steps import Steps

# Each value is the new text of a field, None if that is to go, or the edits of an
# object: of an empty one, where it is absent or null.
Edits = dict[str, "bytes | None | Edits"]

# An outline of more keys would stop the loop for some milliseconds. Colons tell how
# many there are at most, space before them or not.
_MOST_KEYS = 10_000
# Each takes a microsecond, or a half.
_MESSAGES_A_STEP = 2048

_raws = msgspec.json.Decoder(list[Raw]).decode


def edit_steps(body: bytes, edits: Edits) -> Steps[bytes]:
    """An object's text with its edits made; added fields stand last.

    ``body`` was decoded before. In one go, but for objects of very many keys.
    """
    flat: dict[str, bytes | None] = {}
    for name, edit in edits.items():
        if isinstance(edit, dict):
            raw = raw_field(body, name)
            inner = b"null" if raw is None else bytes(raw)
            edit = yield from edit_steps(b"{}" if inner == b"null" else inner, edit)
        flat[name] = edit
    made = replaced(body, flat)
    if made is None and body.count(b":") <= _MOST_KEYS:
        made = rebuilt(outline_of(body), flat)
    return (yield from spliced(body, flat)) if made is None else made


def rebuilt_messages(
    raw: Raw, messages: Sequence[Message], keeps_tools: Container[str], moves_root: bool
) -> Steps[bytes]:
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
        made = bytes(text)
        if edits:
            made = yield from edit_steps(made, edits)
        (first if "role" in edits else rest).append(made)
    return b"[" + b",".join(first + rest) + b"]"
