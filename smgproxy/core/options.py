"""How a room declares its settings, so that flags live beside what they tune.

A room writes a frozen dataclass whose fields are made by ``flag(...)``; ``settings.py``
collects those classes and the command line is generated from them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

METADATA_KEY = "flag"


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """What the command line needs to know of one setting."""

    name: str
    group: str
    help: str
    metavar: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    # Remedy printed after "must be ..." when a bound is missed.
    remedy: str = ""
    # True: the flag takes one or more values after it and may also be repeated.
    is_list: bool = False
    # Turns the text given into the value; raises ValueError(why) when it cannot.
    parse: Callable[[str], Any] | None = None


def flag(
    default: Any,
    name: str,
    group: str,
    help: str,  # noqa: A002 - the word argparse and its readers use
    *,
    metavar: str = "",
    aliases: tuple[str, ...] = (),
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    remedy: str = "",
    is_list: bool = False,
    parse: Callable[[str], Any] | None = None,
) -> Any:
    """A dataclass field that is also a command-line flag.

    The field's annotation gives the type: ``int``, ``float``, ``str``, ``bool`` (a
    switch), ``X | None`` (unset by default) or ``tuple[str, ...]`` (``is_list``).
    """
    described = Flag(
        name=name,
        group=group,
        help=help,
        metavar=metavar,
        aliases=aliases,
        choices=choices,
        minimum=minimum,
        maximum=maximum,
        remedy=remedy,
        is_list=is_list,
        parse=parse,
    )
    return dataclasses.field(default=default, metadata={METADATA_KEY: described})


def flags_of(options: Any) -> list[tuple[dataclasses.Field[Any], Flag]]:
    """The flags a room's options class declares, in order of declaration."""
    return [
        (field, field.metadata[METADATA_KEY])
        for field in dataclasses.fields(options)
        if METADATA_KEY in field.metadata
    ]
