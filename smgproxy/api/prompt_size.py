"""How much prompt a request carries, for an estimate of its tokens (ruling 9)."""

from __future__ import annotations

from typing import Any

import msgspec

# Beyond this the body is not taken apart, and counts as text as a whole.
MAX_PARSED_BYTES = 16 * 1024 * 1024

# So does one of very many objects or texts: all of them made would stop the event loop.
_MOST_OBJECTS = 8192
_MOST_QUOTES = 65_536

# Inside a message or a part: where its text stands.
_TEXT_FIELDS = ("content", "text", "input")


class _Prompt(msgspec.Struct):
    """The fields that hold the prompt on the inference routes."""

    messages: Any = None
    system: Any = None
    instructions: Any = None
    prompt: Any = None
    input: Any = None
    input_ids: Any = None
    text: Any = None
    query: Any = None
    documents: Any = None


_decoder = msgspec.json.Decoder(_Prompt)


def prompt_bytes(body: bytes) -> int:
    """The bytes of text in a JSON body; a token that is given as a number counts 4.

    Images and other data are no text. A body whose prompt cannot be made out counts
    as a whole.
    """
    if len(body) > MAX_PARSED_BYTES or (
        len(body) > _MOST_OBJECTS
        and (body.count(b"{") > _MOST_OBJECTS or body.count(b'"') > _MOST_QUOTES)
    ):
        return len(body)
    try:
        fields = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return len(body)
    return _size([getattr(fields, name) for name in _Prompt.__struct_fields__])


def _size(root: list[Any]) -> int:
    """Text below ``root``; with a list of its own in place of recursion."""
    size = 0
    rest = root
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode())
        elif isinstance(value, list):
            if value and isinstance(value[0], int):
                size += 4 * len(value)
            else:
                rest += value
        elif isinstance(value, dict):
            rest += [value[name] for name in _TEXT_FIELDS if name in value]
    return size
