"""Which keys are modelled where in a body, and the look for one that is there twice.

Gateway and worker might each take another one of two for valid: a repeated key is
refused wherever the gateway reads it. Elsewhere it is the worker's to judge.
"""

from __future__ import annotations

import re
import types
from collections.abc import Generator
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from smgproxy.api.strict import PREFIX
from smgproxy.core.errors import BadBody

# A string, a key with what stands between it and its value, or a brace. Brackets say
# nothing here: a list's objects have the shape of the list's key.
TOKEN = re.compile(
    rb'"((?:[^"\\]++|\\.)*+)"(?:([ \t\r\n]*+:[ \t\r\n]*+(\[?)))?|[{}]', re.DOTALL
)
KEY = 2  # `lastindex` of a key: the last group that was closed
OPEN = ord("{")
# Tokens that are looked at in one step: two milliseconds.
TOKENS_A_STEP = 4096


class Shape:
    """The modelled keys of an object, and the shapes of their values.

    A value that is a list stands for its elements; None is what is not looked into.
    """

    __slots__ = ("keys",)

    def __init__(self, keys: dict[bytes, Shape | None]) -> None:
        self.keys = keys

    def merged(self, other: Shape) -> Shape:
        """What is modelled in either."""
        keys = dict(self.keys)
        for name, inner in other.keys.items():
            known = keys.get(name)
            both = known.merged(inner) if known and inner else known or inner
            keys[name] = both
        return Shape(keys)


def shape_of(kind: Any) -> Shape | None:
    """The shape of what a type reads; ``extra={"shape": ...}`` names another's."""
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *metas = get_args(kind)
        for meta in metas:
            if meta.extra and "shape" in meta.extra:
                return shape_of(meta.extra["shape"])
        return shape_of(inner)
    if origin in (Union, types.UnionType, list):
        found: Shape | None = None
        for inner in map(shape_of, get_args(kind)):
            found = found.merged(inner) if found and inner else found or inner
        return found
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        keys = {
            field.encode_name.encode(): shape_of(field.type)
            for field in msgspec.structs.fields(kind)
        }
        tag = kind.__struct_config__.tag_field
        if tag is not None:
            keys[tag.encode()] = None
        return Shape(keys)
    return None


def name_of(text: bytes) -> str:
    """A key, of what stands between its quotes."""
    if b"\\" in text:
        return msgspec.json.decode(b'"%b"' % text, type=str)
    return text.decode()


class Frame:
    """An object that is open: its shape, the modelled keys it had, and where it is."""

    __slots__ = ("shape", "seen", "name", "is_list", "inner", "place")

    def __init__(self, shape: Shape | None) -> None:
        self.shape = shape
        self.seen: set[bytes] = set()
        self.name = b""  # the key whose value is being read
        self.is_list = False
        self.inner: Shape | None = None  # the shape of that value
        self.place = -1  # and which of its objects is the last

    def path(self) -> str:
        """Where the value of the last key is, inside of this object."""
        name = self.name.decode()
        return f"{name}[{self.place}]." if self.is_list else f"{name}."


def repeat_steps(body: bytes, shape: Shape) -> Generator[None, None, None]:
    """Refuse a modelled key that is there twice, in steps.

    ``body`` is JSON that was decoded before. Raises BadBody.
    """
    root = frame = Frame(None)
    root.inner = shape
    outer: list[Frame] = []
    left = TOKENS_A_STEP
    for token in TOKEN.finditer(body):
        left -= 1
        if not left:
            left = TOKENS_A_STEP
            yield
        kind = token.lastindex
        if kind == KEY:
            known = frame.shape
            if known is None:
                continue
            name = token[1]
            if b"\\" in name:
                name = name_of(name).encode()
            frame.inner = None
            if name in known.keys:
                if name in frame.seen:
                    path = "".join([each.path() for each in outer[1:]])
                    raise BadBody(f"{PREFIX}duplicate field `{path}{name.decode()}`")
                frame.seen.add(name)
                frame.inner = known.keys[name]
                frame.name, frame.place = name, -1
                frame.is_list = token[3] == b"["
        elif kind is None:
            if body[token.start()] == OPEN:
                frame.place += 1
                outer.append(frame)
                frame = Frame(frame.inner)
            else:
                frame = outer.pop()
