"""From bytes to a typed body: one decoder for each endpoint, and what it refuses.

A body is decoded once, ranges included. Only when that fails is it looked at again, to
tell a value of the wrong type from one out of its range: the contract has an error of
its own for each.
"""

from __future__ import annotations

import re
import types
from collections.abc import Generator, Iterable, Iterator, Mapping
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from smgproxy.api.fields import Body
from smgproxy.api.strict import (
    PREFIX,
    has_many_brackets,
    is_plain,
    outline_of,
    outlines_of,
    raw_of,
    refuse_bad_text,
    refuse_deep,
    refuse_repeated,
)
from smgproxy.core.errors import BadBody, GatewayError, InvalidField

_MOST_SHOWN = 300
# Objects of a list looked at in one step: some milliseconds.
_OBJECTS_A_STEP = 2000
_MOST_SHOWN_OF_A_VALUE = 40
_FAULT = re.compile(r"(?P<what>.*) - at `\$\.(?P<place>.*)`", re.DOTALL)
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<op><=|>=) (?P<size>\d+)")


class Schema:
    """Reads the bodies of one endpoint as ``kind``.

    ``lists`` names fields that are arrays of objects, each with the keys that must
    not be repeated in them; the body's own fields may not be either.
    """

    __slots__ = ("kind", "_decode", "_names", "_lists", "_coded", "_relaxed")

    def __init__(
        self, kind: type[Body], lists: Mapping[str, Iterable[str]] | None = None
    ) -> None:
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._names = kind.__struct_fields__
        self._lists = lists or {}
        self._coded = [
            (name, [key.encode() for key in keys]) for name, keys in self._lists.items()
        ]
        self._relaxed = msgspec.json.Decoder(relaxed(kind)).decode

    def read(self, body: bytes) -> Body:
        """The body, held to its types. Raises BadBody and InvalidField."""
        try:
            read = self._decode(body)
            refuse_bad_text(body)
            lists = [(len(getattr(read, name)), keys) for name, keys in self._coded]
            if not is_plain(body, lists):
                for _ in self._closely(body):
                    pass
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._fault(error, body) from None
        return read

    def steps(self, body: bytes) -> Generator[None, None, Body]:
        """The same for a body so long that others must have turns meanwhile."""
        try:
            read = self._decode(body)
            yield
            refuse_bad_text(body)
            yield
            yield from self._closely(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._fault(error, body) from None
        return read

    def _closely(self, body: bytes) -> Iterator[None]:
        """Look for repeated keys and for depth, in steps."""
        outline = outline_of(body)
        refuse_repeated(outline, self._names)
        yield
        is_suspect = has_many_brackets(body)
        yield
        if is_suspect:
            refuse_deep(outline, 1, self._lists)
        for name, keys in self._lists.items():
            yield
            for place, inner in enumerate(outlines_of(raw_of(outline, name))):
                refuse_repeated(inner, keys, name, place)
                if is_suspect:
                    refuse_deep(inner, 3)
                if place % _OBJECTS_A_STEP == 0:
                    yield

    def _fault(self, error: Exception, body: bytes) -> GatewayError:
        if isinstance(error, msgspec.ValidationError):
            return self._explain(error, body)
        if isinstance(error, RecursionError):
            return BadBody(PREFIX + "nested too deeply")
        return BadBody(PREFIX + _short(str(error)))

    def _explain(self, error: msgspec.ValidationError, body: bytes) -> GatewayError:
        """A range's failure as such, if there is no other fault in the whole body."""
        try:
            self._relaxed(body)
            refuse_bad_text(body)
        except (msgspec.DecodeError, RecursionError) as other:
            return BadBody(PREFIX + _short(str(other)))
        except BadBody as other:
            return other
        found = _FAULT.fullmatch(str(error))
        if found is None:
            return InvalidField(_short(str(error)))
        what, place = found["what"], found["place"]
        name = re.split(r"[.\[]", place, maxsplit=1)[0]
        length = _LENGTH.fullmatch(what)
        if length is not None:
            return InvalidField(f"{place}: {_length_rule(length)}")
        return InvalidField(
            f"{place}: {self._value(name, body)} is out of range, "
            f"must be {self._range(name)}"
        )

    def _value(self, name: str, body: bytes) -> str:
        text = bytes(raw_of(outline_of(body), name))
        return text[:_MOST_SHOWN_OF_A_VALUE].decode(errors="replace")

    def _range(self, name: str) -> str:
        """The range of a field's type in words."""
        for field in msgspec.structs.fields(self.kind):
            if field.encode_name == name:
                for meta in _metas(field.type):
                    return _range_rule(meta)
        return "different"


def relaxed(kind: Any) -> Any:
    """A type without its ranges, so that only wrong types are left to be refused."""
    origin = get_origin(kind)
    if origin is Annotated:
        inner, *metas = get_args(kind)
        for meta in metas:
            extra = meta.extra or {}
            if "kind" in extra:
                return kind if extra["kind"] is None else extra["kind"]
        return relaxed(inner)
    if origin in (Union, types.UnionType):
        return Union[tuple(relaxed(each) for each in get_args(kind))]
    if origin in (list, dict):
        return origin[tuple(relaxed(each) for each in get_args(kind))]
    if isinstance(kind, type) and issubclass(kind, Struct):
        return _relaxed_struct(kind)
    return kind


_RELAXED: dict[type[Struct], type[Struct]] = {}


def _relaxed_struct(kind: type[Struct]) -> type[Struct]:
    if kind not in _RELAXED:
        config = kind.__struct_config__
        _RELAXED[kind] = msgspec.defstruct(
            kind.__name__,
            [
                (
                    (field.name, relaxed(field.type))
                    if field.required
                    else (field.name, relaxed(field.type), field.default)
                )
                for field in msgspec.structs.fields(kind)
            ],
            tag_field=config.tag_field,
            tag=config.tag,
            kw_only=True,
        )
    return _RELAXED[kind]


def _metas(kind: Any) -> list[Meta]:
    """Every Meta in an annotation, the outermost first."""
    found = []
    if get_origin(kind) is Annotated:
        found = [each for each in get_args(kind)[1:] if isinstance(each, Meta)]
        return found + _metas(get_args(kind)[0])
    for each in get_args(kind):
        found += _metas(each)
    return found


def _range_rule(meta: Meta) -> str:
    low, high = meta.ge, meta.le
    if meta.gt is not None:
        return f"greater than {meta.gt:g} and at most {high:g}"
    if high is None or high >= 2**32 - 1:
        return f"at least {low:g}"
    return f"between {low:g} and {high:g}"


def _length_rule(found: re.Match[str]) -> str:
    size = found["size"]
    if found["op"] == ">=":
        return "must not be empty"
    what = "characters" if found["kind"] == "str" else "entries"
    return f"must have at most {size} {what}"


def _short(text: str) -> str:
    return " ".join(text.split())[:_MOST_SHOWN]
