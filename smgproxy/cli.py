"""The commands of smgproxy; argv and environment are read here and nowhere else."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence

from smgproxy import __version__
from smgproxy.arguments import UsageError, read_arguments
from smgproxy.settings import SettingsError, declared_flags, make_settings
from smgproxy.usage import flag_list, flags_page, launch_help

_OK, _BAD_SETTING, _BAD_USAGE = 0, 1, 2
_HELP = ("-h", "--help")
_LEVELS = ("debug", "info", "warn", "error", "off")

_OVERVIEW = """\
usage: smg COMMAND [--flag value] ...

Commands:
  launch               start the gateway; smg launch --help explains its flags
  flags [--markdown]   list the flags of launch, and those not supported yet
  openapi              print the OpenAPI description of what the gateway accepts

  smg --version        print the version
  smg --help           print this text
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command and give the exit status: 1 for wrong settings, 2 for
    a command line that is not understood."""
    words = list(sys.argv[1:] if argv is None else argv)
    command = words[0] if words else ""
    if command in _HELP:
        return _show(_OVERVIEW)
    if command == "--version":
        return _show(f"smgproxy {__version__}\n")
    run = _COMMANDS.get(command)
    if run is None:
        known = ", ".join(_COMMANDS)
        why = f"unknown command {ascii(command)}" if command else "a command is missing"
        return _refuse(f"smg: {why}; available: {known} (see smg --help)", _BAD_USAGE)
    try:
        return run(words[1:])
    except UsageError as error:
        return _refuse(f"smg {command}: {error}", _BAD_USAGE)
    except SettingsError as error:
        return _refuse(f"smg {command}: {error}", _BAD_SETTING)


def _launch(words: Sequence[str]) -> int:
    flags = declared_flags()
    if any(word in _HELP for word in words):
        columns = shutil.get_terminal_size().columns
        return _show(launch_help(flags, width=min(max(columns, 80), 100)))
    given = read_arguments(words, flags)
    level, notices = _level_from(os.environ)
    settings = make_settings(given, level, notices)
    # Brings in the event loop and every room, which --help can do without.
    from smgproxy.run import run

    # The variables of systemd are taken out of it, so that no child gets them.
    return run(settings, os.environ)


def _level_from(environ: Mapping[str, str]) -> tuple[str | None, tuple[str, ...]]:
    """RUST_LOG in place of --log-level, as the contract has it, if it is a level."""
    text = environ.get("RUST_LOG", "").strip().lower()
    if not text or text in _LEVELS:
        return text or None, ()
    known = ", ".join(_LEVELS)
    return None, (f"RUST_LOG is ignored: it must be one of {known}, not a filter",)


def _list_flags(words: Sequence[str]) -> int:
    if not words:
        return _show(flag_list(declared_flags()))
    if list(words) == ["--markdown"]:
        return _show(flags_page(declared_flags()))
    if any(word in _HELP for word in words):
        return _show(_OVERVIEW)
    raise UsageError("takes --markdown and nothing else")


def _describe(words: Sequence[str]) -> int:
    if any(word in _HELP for word in words):
        return _show(_OVERVIEW)
    if words:
        raise UsageError("takes no arguments")
    from smgproxy.api.openapi import document

    return _show(json.dumps(document(), indent=2) + "\n")


def _show(text: str) -> int:
    """Print; a reader that has seen enough (``| head``) is no failure."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # Else the interpreter trips over the same pipe when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _OK


def _refuse(line: str, status: int) -> int:
    print(line, file=sys.stderr)
    return status


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "launch": _launch,
    "flags": _list_flags,
    "openapi": _describe,
}
