"""A JSON object's outline: its keys in order and the raw text of their values."""

from __future__ import annotations

import msgspec


class Name:
    """A key in its place: two keys of the same text are still two keys."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


# Repeated keys included.
Outline = dict[Name, msgspec.Raw]

# The hook makes a Name of each key: type.__call__(Name, text) is Name(text).
_outline = msgspec.json.Decoder(Outline, dec_hook=type.__call__)


def outline_of(text: bytes | msgspec.Raw) -> Outline:
    """The outline of a JSON object that was decoded before."""
    return _outline.decode(text)


def raw_of(outline: Outline, name: str) -> msgspec.Raw:
    """The raw text of a field that is there."""
    return next(raw for key, raw in outline.items() if key.text == name)
