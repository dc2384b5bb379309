"""What is written about the flags: the help of ``smg launch``, and docs/flags.md."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from smgproxy import __version__
from smgproxy.flags_unsupported import UNSUPPORTED_FLAGS
from smgproxy.settings import DeclaredFlag

# The order of the contract; a group that is not named here comes last.
_GROUPS = (
    "General",
    "Worker Configuration",
    "Simulated Workers",
    "Routing Policy",
    "Realtime",
    "PD/EPD Disaggregation",
    "Service Discovery (Kubernetes)",
    "Service Discovery (File)",
    "Logging",
    "Prometheus Metrics",
    "Profiling",
    "Request Handling",
    "Rate Limiting",
    "Priority Scheduler",
    "Retry Configuration",
    "Circuit Breaker",
    "Health Checks",
)
_INDENT = 30

_EXAMPLES = """\
Examples:
  smg launch --simulated-workers 2
  smg launch --worker-urls http://10.0.0.1:8000 http://10.0.0.2:8000
  smg launch --host 127.0.0.1 --port 8080 --worker-urls http://127.0.0.1:8000
"""

_PAGE_HEAD = """\
# Flags of `smg launch`

Written by `python -m smgproxy flags --markdown`: change a flag where it is declared,
not here.

`--flag value` and `--flag=value` are the same. Of a flag given twice the last one
counts; a flag whose value is shown with `...` takes several values and may be given
several times. Names cannot be shortened. A wrong value ends the start with one line
on stderr and exit status 1; a flag that is unknown, incomplete or not supported yet
with exit status 2.
"""

_PAGE_TAIL = """\
## Not supported yet

Flags of the SMG contract that smgproxy does not implement so far. They are refused
by name at the start, never accepted and ignored.
"""


def _by_group(flags: Iterable[DeclaredFlag]) -> dict[str, list[DeclaredFlag]]:
    groups: dict[str, list[DeclaredFlag]] = {name: [] for name in _GROUPS}
    for one in flags:
        groups.setdefault(one.flag.group, []).append(one)
    return {name: found for name, found in groups.items() if found}


def _value(one: DeclaredFlag) -> str:
    """What stands for the value of a flag: PORT, {a,b}, URL ... or nothing."""
    if one.is_switch:
        return ""
    letter = "TEXT" if one.kind is str else "N"
    what = one.flag.metavar or letter
    if one.flag.choices and not one.flag.metavar:
        what = "{" + ",".join(one.flag.choices) + "}"
    return f"{what} ..." if one.flag.is_list else what


def _default(one: DeclaredFlag) -> str:
    if one.default is None:
        return "unset"
    if one.is_switch:
        return "on" if one.default else "off"
    if one.flag.is_list:
        return " ".join(map(str, one.default)) or "none"
    if isinstance(one.default, float):
        return f"{one.default:g}"
    return str(one.default)


def _meaning(one: DeclaredFlag) -> tuple[str, str]:
    """What a flag is for, and its default, which a text may put into words itself."""
    text, has_words, words = one.flag.help.partition(" (default: ")
    return text, words.removesuffix(")") if has_words else _default(one)


def launch_help(flags: Iterable[DeclaredFlag], width: int) -> str:
    """The answer to ``smg launch --help``, in lines of at most ``width`` columns."""
    head = [
        "usage: smg launch [--flag value] ...\n",
        "Starts the gateway: one address for many LLM inference workers.\n",
        _EXAMPLES,
    ]
    help_entry = _entry("-h, --help", "show this text and exit", width)
    sections = {"General": help_entry}
    for group, found in _by_group(flags).items():
        entries = "".join(_described(one, width) for one in found)
        sections[group] = sections.get(group, "") + entries
    count = sum(map(len, UNSUPPORTED_FLAGS.values()))
    tail = f"{count} more flags of the SMG contract are not supported yet."
    return "\n".join(
        [
            *head,
            *(f"{group}:\n{entries}" for group, entries in sections.items()),
            f"{tail} smg flags lists them.\n",
        ]
    )


def _described(one: DeclaredFlag, width: int) -> str:
    head = " ".join(filter(None, [", ".join(one.spellings), _value(one)]))
    text, default = _meaning(one)
    return _entry(head, f"{text} (default: {default})", width)


def _entry(head: str, text: str, width: int) -> str:
    is_short = len(head) <= _INDENT - 4
    indent = " " * _INDENT
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=f"  {head}".ljust(_INDENT) if is_short else indent,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )
    if not is_short:
        names = textwrap.wrap(
            head,
            width,
            initial_indent="  ",
            subsequent_indent="      ",
            break_on_hyphens=False,
        )
        lines = names + lines
    return "\n".join(lines) + "\n"


def flag_list(flags: Iterable[DeclaredFlag]) -> str:
    """The answer to ``smg flags``: one line for each flag, and the names to come."""
    lines = [f"Flags of smg launch in smgproxy {__version__}:"]
    lines += [
        f"  {one.flag.name} {_value(one)}".rstrip() + f"  (default: {_meaning(one)[1]})"
        for found in _by_group(flags).values()
        for one in found
    ]
    lines += ["", "Not supported yet:"]
    for names in UNSUPPORTED_FLAGS.values():
        lines += [f"  {name}" for name in names]
    return "\n".join(lines) + "\n"


def flags_page(flags: Iterable[DeclaredFlag]) -> str:
    """docs/flags.md."""
    sections = [_PAGE_HEAD]
    for group, found in _by_group(flags).items():
        rows = "".join(_row(one) for one in found)
        head = "| Flag | Default | Meaning |\n|---|---|---|\n"
        sections.append(f"## {group}\n\n{head}{rows}")
    return "\n".join([*sections, _PAGE_TAIL, "\n".join(_planned()) + "\n"])


def _row(one: DeclaredFlag) -> str:
    names = ", ".join(f"`{name}`" for name in one.spellings)
    value = f" `{_value(one)}`" if _value(one) else ""
    text, default = _meaning(one)
    cells = (names + value, default, text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _planned() -> Iterator[str]:
    for group, names in UNSUPPORTED_FLAGS.items():
        yield _bullet(f"- {group}: " + ", ".join(f"`{name}`" for name in names))


def _bullet(text: str) -> str:
    return textwrap.fill(text, 84, subsequent_indent="  ", break_on_hyphens=False)
