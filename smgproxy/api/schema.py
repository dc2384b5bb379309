"""From bytes to a typed body: one decoder for each endpoint, and what it refuses.

A body is decoded once, ranges included. Only when that fails is it looked at again, to
tell a value of the wrong type from one out of its range: the contract has an error of
its own for each. A body that is long and full of small values is read in steps.
"""

from __future__ import annotations

import re
import types
from collections.abc import Generator
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from smgproxy.api.choices import choices_at
from smgproxy.api.fields import Body
from smgproxy.api.outline import raw_field
from smgproxy.api.shape import repeat_steps, shape_of
from smgproxy.api.strict import (
    MAX_DEPTH,
    PREFIX,
    deep_steps,
    has_more,
    has_repeats,
    has_spaced_keys,
    refuse_bad_text,
    refuse_deep,
)
from smgproxy.core.errors import BadBody, GatewayError, InvalidField

# A body of this size is read in one go whatever is in it: four milliseconds at most.
SMALL_BODY_BYTES = 32 * 1024
# So is a longer one that has no more values and brackets than this: most of it is text.
_LIGHT_COMMAS = 4096
_LIGHT_BRACKETS = 8192
# Beyond this text, too, is read in steps.
_LONG_BODY_BYTES = 1024 * 1024
# Keys of a body, those of its lists left out, that a quick look goes through.
_QUICK_KEYS = 256
# Of a body whose keys cannot be counted as easily.
_UNKNOWN = -1
_MOST_SHOWN = 300
_MOST_SHOWN_OF_A_VALUE = 40
_MOST_SHOWN_OF_A_CHOICE = 100
_FAULT = re.compile(r"(?P<what>.*) - at `\$\.(?P<place>.*)`", re.DOTALL)
_LENGTH = re.compile(r"Expected `(?P<kind>\w+)` of length (?P<op><=|>=) (?P<size>\d+)")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def is_light(body: bytes) -> bool:
    """Whether reading a body in one go stops the event loop for no longer than 5 ms."""
    size = len(body)
    return size <= SMALL_BODY_BYTES or (
        size <= _LONG_BODY_BYTES
        and body.count(b",") <= _LIGHT_COMMAS
        and body.count(b"[") + body.count(b"{") <= _LIGHT_BRACKETS
    )


class Schema:
    """Reads the bodies of one endpoint as ``kind``."""

    __slots__ = ("kind", "_decode", "_shape", "_relaxed")

    def __init__(self, kind: type[Body]) -> None:
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        shape = shape_of(kind)
        assert shape is not None
        self._shape = shape
        self._relaxed = msgspec.json.Decoder(relaxed(kind)).decode

    def read(self, body: bytes) -> Body:
        """The body, held to its types. Raises BadBody and InvalidField."""
        try:
            read = self._decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise self._fault(error, body) from None
        refuse_bad_text(body)
        keys = _UNKNOWN if has_spaced_keys(body) else body.count(b'":')
        # An object with another inside it has a key.
        if keys == _UNKNOWN or has_more(body, b"[", MAX_DEPTH - 1 - keys):
            refuse_deep(body)
        if not _is_plain(read, body, keys) and has_repeats(body, keys):
            for _ in repeat_steps(body, self._shape):
                pass
        return read

    def steps(self, body: bytes) -> Generator[None, None, Body]:
        """The same for a body so long that others must have turns meanwhile."""
        # To nest too deeply it needs as many as this of one of them.
        most = MAX_DEPTH // 2
        if has_more(body, b"{", most) or has_more(body, b"[", most):
            yield
            yield from deep_steps(body)
        yield
        try:
            read = self._decode(body)
        except (msgspec.DecodeError, RecursionError) as error:
            yield
            raise self._fault(error, body) from None
        yield
        refuse_bad_text(body)
        yield
        keys = _UNKNOWN if has_spaced_keys(body) else body.count(b'":')
        yield
        is_plain = _is_plain(read, body, keys)
        yield
        if not is_plain:
            yield from repeat_steps(body, self._shape)
        return read

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
            return self._wrong_type(str(other))
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

    def _wrong_type(self, fault: str) -> BadBody:
        """A value of the wrong type; a text that is none of a few has those named."""
        found = _FAULT.fullmatch(fault)
        allowed: list[str] = []
        if found is not None and found["what"].startswith("Invalid "):
            allowed = choices_at(self.kind, found["place"])
        if found is None or not allowed:
            return BadBody(PREFIX + _short(fault))
        few = "one of " if len(allowed) > 1 else ""
        return BadBody(
            f"{PREFIX}{_short(found['what'])[:_MOST_SHOWN_OF_A_CHOICE]} "
            f"- at `$.{found['place']}`, must be {few}{', '.join(allowed)}"
        )

    def _value(self, name: str, body: bytes) -> str:
        raw = raw_field(body, name)
        assert raw is not None
        return bytes(memoryview(raw)[:_MOST_SHOWN_OF_A_VALUE]).decode(errors="replace")

    def _range(self, name: str) -> str:
        """The range of a field's type in words."""
        for field in msgspec.structs.fields(self.kind):
            if field.encode_name == name:
                for meta in _metas(field.type):
                    return _range_rule(meta)
        return "different"


def _is_plain(read: Body, body: bytes, keys: int) -> bool:
    """Whether a quick look is enough to know that no key is there twice.

    ``keys`` is how many there are at most. It is sure only when it says yes, which it
    does for the usual body: all of them must be there, each once.
    """
    own = keys - read.least_inner_keys()
    return 0 < own <= _QUICK_KEYS and len(_fields(body)) == own


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
            forbid_unknown_fields=config.forbid_unknown_fields,
            kw_only=True,
            gc=False,
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
    # Cut twice, as there may be a megabyte of blanks.
    return " ".join(text[: 2 * _MOST_SHOWN].split())[:_MOST_SHOWN]
