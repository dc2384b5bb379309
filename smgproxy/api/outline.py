"""A JSON object's outline: its keys in order and the raw text of their values."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType


class Name:
    """A key in its place: two keys of the same text are still two keys."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


# Repeated keys included.
Outline = dict[Name, Raw]

# The hook makes a Name of each key: type.__call__(Name, text) is Name(text).
_outline = msgspec.json.Decoder(Outline, dec_hook=type.__call__)


def outline_of(text: bytes | Raw) -> Outline:
    """The outline of a JSON object that was decoded before."""
    return _outline.decode(text)


@cache  # the names are those of fields of ours
def _reader(name: str) -> Callable[[bytes | Raw], Any]:
    fields = [("value", Raw | UnsetType, UNSET)]
    kind = msgspec.defstruct("Only", fields, rename={"value": name}, gc=False)
    return msgspec.json.Decoder(kind).decode


def raw_field(text: bytes | Raw, name: str) -> Raw | None:
    """The raw text of one field of an object, None when it is not there."""
    value = _reader(name)(text).value
    return None if value is UNSET else value


def raw_of(outline: Outline, name: str) -> Raw:
    """The raw text of a field that is there."""
    return next(raw for key, raw in outline.items() if key.text == name)
