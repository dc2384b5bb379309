"""Reads the fields of a worker spec, with an error that names field and fault."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_SHOWN_CHARACTERS = 100
_MISFIT = "Invalid JSON data: Failed to deserialize the JSON body into the target type"


class InvalidSpec(ValueError):
    """A spec that cannot be carried out; the message is for whoever sent it."""


def misfit(why: str) -> InvalidSpec:
    """The error for JSON of the wrong shape (contract: worker registry errors)."""
    return InvalidSpec(f"{_MISFIT}: {why}")


def not_supported(what: str) -> InvalidSpec:
    """The error for what the contract knows and this version does not."""
    return InvalidSpec(f"{what} is not supported yet by smgproxy")


class Fields:
    """One JSON object and its path in the spec. Null is the same as absent."""

    __slots__ = ("_given", "_path")

    def __init__(self, given: Any, path: str = "") -> None:
        if not isinstance(given, dict):
            name = path or "the body"
            raise misfit(f"{name}: invalid type: {kind_of(given)}, expected a map")
        self._given: Mapping[str, Any] = given
        self._path = path

    def has(self, name: str) -> bool:
        """Whether the field is there and not null."""
        return self._given.get(name) is not None

    def raw(self, name: str) -> Any:
        """The field as it came; None when absent."""
        return self._given.get(name)

    def required_text(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        if value is None:
            at = f"{self._path}: " if self._path else ""
            raise misfit(f"{at}missing field `{name}`")
        return value

    def text(self, name: str) -> str | None:
        """A string."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, value, "a string")
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, value, "a boolean")
        return value

    def integer(self, name: str, minimum: int = 0, bits: int = 64) -> int | None:
        """An unsigned integer of so many bits, of at least ``minimum``."""
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._wrong(name, value, f"u{bits}")
        if not 0 <= value < 1 << bits:
            # A number that no machine word holds is not repeated: it may be long.
            shown = f"`{value}`" if -(1 << 64) < value < 1 << 64 else "out of range"
            path = self._at(name)
            raise misfit(f"{path}: invalid value: integer {shown}, expected u{bits}")
        if value < minimum:
            raise InvalidSpec(
                f"Invalid value for field '{self._at(name)}': {value} - "
                f"Must be >= {minimum}"
            )
        return value

    def integers(self, name: str, bits: int = 64) -> list[int] | None:
        """A list of unsigned integers of so many bits."""
        value = self.items(name)
        if value is not None:
            for place, each in enumerate(value):
                is_integer = isinstance(each, int) and not isinstance(each, bool)
                if not is_integer or not 0 <= each < 1 << bits:
                    raise self._wrong(f"{name}[{place}]", each, f"u{bits}")
        return value

    def number(self, name: str) -> float | None:
        """A finite number."""
        value = self._given.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, value, "f32")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise misfit(f"{self._at(name)}: invalid value: out of range, expected f32")
        return number

    def texts(self, name: str) -> list[str] | None:
        """A list of strings."""
        value = self.items(name)
        if value is not None:
            for place, each in enumerate(value):
                if not isinstance(each, str):
                    raise self._wrong(f"{name}[{place}]", each, "a string")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list of anything."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, list):
            raise self._wrong(name, value, "a sequence")
        return value

    def text_map(self, name: str) -> dict[str, str] | None:
        """An object whose values are strings."""
        value = self._given.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._wrong(name, value, "a map")
        for key, each in value.items():
            if not isinstance(each, str):
                raise self._wrong(f"{name}.{key}", each, "a string")
        return value

    def block(self, name: str) -> Fields | None:
        """An object within this one."""
        value = self._given.get(name)
        return None if value is None else Fields(value, self._at(name))

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def _wrong(self, name: str, value: Any, expected: str) -> InvalidSpec:
        kind = kind_of(value)
        return misfit(f"{self._at(name)}: invalid type: {kind}, expected {expected}")


def kind_of(value: Any) -> str:
    """What a JSON value is, shown when it is short."""
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`" if abs(value) < 1 << 64 else "integer"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f'string "{value}"' if len(value) <= _SHOWN_CHARACTERS else "string"
    if value is None:
        return "null"
    return "sequence" if isinstance(value, list) else "map"
