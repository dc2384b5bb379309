"""From the words behind ``smg launch`` to values, or to one line that says why not.

``--flag value`` and ``--flag=value`` are the same. Of a flag given twice the last one
counts; a list flag takes several values and gathers those of each time it is given.
No name may be shortened: a short form of one flag could be another one tomorrow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from smgproxy import __version__
from smgproxy.flags_unsupported import UNSUPPORTED_FLAGS
from smgproxy.server_options import NotSupportedYet, shown
from smgproxy.settings import DeclaredFlag, SettingsError

_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_NEGATIVE_NUMBER = re.compile(r"-\.?[0-9]")
_LARGEST = 2**63 - 1


class UsageError(Exception):
    """A command line that cannot be carried out by this version; says what to do."""


def read_arguments(
    words: Sequence[str], declared: Iterable[DeclaredFlag]
) -> dict[DeclaredFlag, Any]:
    """The values given, by flag; flags that were not given are not there.

    Raises UsageError when a word is not understood, SettingsError when a value is
    wrong, whichever comes first on the line.
    """
    by_name = {name: one for one in declared for name in one.spellings}
    given: dict[DeclaredFlag, Any] = {}
    place = 0
    while place < len(words):
        name, has_value, value = words[place].partition("=")
        place += 1
        one = by_name.get(name)
        if one is None:
            raise UsageError(_refusal(words[place - 1], by_name))
        if one.is_switch:
            if has_value:
                raise UsageError(f"{name}: takes no value; write {name} alone")
            given[one] = not name.startswith("--no-")
            continue
        texts = [value] if has_value else _values_behind(words, place, one)
        place += 0 if has_value else len(texts)
        if not texts:
            raise UsageError(
                f"{name}: needs a value; one that begins with '-' is given as "
                f"{name}=VALUE"
            )
        values = tuple(_read(one, name, text) for text in texts)
        given[one] = given.get(one, ()) + values if one.flag.is_list else values[0]
    return given


def _values_behind(words: Sequence[str], place: int, one: DeclaredFlag) -> list[str]:
    """The words after a flag that are values and not flags: all of them, or one."""
    texts: list[str] = []
    for word in words[place:] if one.flag.is_list else words[place : place + 1]:
        is_value = len(word) < 2 or word[0] != "-" or _NEGATIVE_NUMBER.match(word)
        if not is_value:
            break
        texts.append(word)
    return texts


def _refusal(word: str, by_name: Iterable[str]) -> str:
    """Why a word is no flag of ours, and what was meant perhaps."""
    name = word.partition("=")[0]
    if not name.startswith("-"):
        return f"unexpected argument {shown(word)}; every value follows a --flag"
    planned = [one for names in UNSUPPORTED_FLAGS.values() for one in names]
    if name in planned:
        return (
            f"{name} is not supported yet by smgproxy {__version__}; leave it out "
            "(smg flags lists what is supported)"
        )
    # Needed by nobody who types well, and it takes milliseconds to load.
    from difflib import get_close_matches

    near = get_close_matches(name, [*by_name, *planned], n=1)
    if near:
        return f"unknown flag {shown(name)}; did you mean {near[0]}?"
    return f"unknown flag {shown(name)}; smg launch --help lists the flags"


def _read(one: DeclaredFlag, name: str, text: str) -> Any:
    """One value of a flag. ``name`` is the spelling used, for the error."""
    try:
        if one.flag.parse is not None:
            value = one.flag.parse(text)
        else:
            value = _typed(one.kind, text)
        if isinstance(value, int | float):
            _hold_to_bounds(one, value, text)
    except NotSupportedYet as error:
        raise UsageError(f"{name}: {error}") from error
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from error
    if one.flag.choices and value not in one.flag.choices:
        _refuse_choice(one, name, text)
    return value


def _typed(kind: type, text: str) -> Any:
    if kind is int:
        if _WHOLE_NUMBER.fullmatch(text) is None or abs(int(text)) > _LARGEST:
            raise ValueError(f"must be a whole number, got {shown(text)}")
        return int(text)
    if kind is float:
        value = float(text) if _NUMBER.fullmatch(text) else math.inf
        if not math.isfinite(value):
            raise ValueError(f"must be a number, got {shown(text)}")
        return value
    if not text.isprintable():
        raise ValueError(f"must be printable text, got {shown(text)}")
    return text


def _hold_to_bounds(one: DeclaredFlag, value: float, text: str) -> None:
    least, most = one.flag.minimum, one.flag.maximum
    is_low = least is not None and value < least
    is_high = most is not None and value > most
    if not (is_low or is_high):
        return
    if least is None:
        rule = f"at most {most:.15g}"
    elif most is None:
        rule = f"at least {least:.15g}"
    else:
        rule = f"between {least:.15g} and {most:.15g}"
    remedy = f"; {one.flag.remedy}" if one.flag.remedy else ""
    raise ValueError(f"must be {rule}, got {shown(text)}{remedy}")


def _refuse_choice(one: DeclaredFlag, name: str, text: str) -> None:
    available = ", ".join(one.flag.choices)
    raise SettingsError(f"{name}: must be one of {available}, got {shown(text)}")
