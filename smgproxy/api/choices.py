"""What a field may say, for the error that refuses what it said."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

_STEP = re.compile(r"\[[^\]]*\]|[^.\[]+")


def choices_at(kind: Any, place: str) -> list[str]:
    """The texts that a type allows at a place, none where it allows any.

    ``place`` is what msgspec calls it in its errors, such as ``messages[0].role``.
    """
    kinds = [kind]
    for step in _STEP.findall(place):
        kinds = [inner for each in kinds for inner in _inner(each, step)]
    found = [text for each in kinds for leaf in _leaves(each) for text in _texts(leaf)]
    return list(dict.fromkeys(found))


def _leaves(kind: Any) -> Iterator[Any]:
    """The types that a union is of, without what is said about their ranges."""
    origin = get_origin(kind)
    if origin is Annotated:
        yield from _leaves(get_args(kind)[0])
    elif origin in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _leaves(each)
    else:
        yield kind


def _inner(kind: Any, step: str) -> Iterator[Any]:
    """The types of a field, or of the items of an array."""
    for leaf in _leaves(kind):
        if get_origin(leaf) is list and step[0] == "[":
            yield from get_args(leaf)
        elif isinstance(leaf, type) and issubclass(leaf, msgspec.Struct):
            config = leaf.__struct_config__
            if step == config.tag_field:
                yield Literal[config.tag]
            for field in msgspec.structs.fields(leaf):
                if field.encode_name == step:
                    yield field.type


def _texts(leaf: Any) -> list[str]:
    if get_origin(leaf) is not Literal:
        return []
    return [each for each in get_args(leaf) if isinstance(each, str)]
