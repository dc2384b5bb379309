"""RESULTS.md as parts that are measured, and so replaced, one by one."""

import re
from collections.abc import Mapping
from pathlib import Path

_MARK = re.compile(r"^<!-- trial: ([\w-]+) -->\n", re.MULTILINE)


def split(text: str) -> tuple[str, dict[str, str]]:
    """The comparison of programs, and the section of each trial by its name."""
    first, *marked = _MARK.split(text)
    return first, dict(zip(marked[::2], marked[1::2], strict=True))


def merge(text: str, first: str | None, trials: Mapping[str, str]) -> str:
    """``text`` with some of its parts replaced; None keeps the comparison."""
    kept, sections = split(text)
    parts = [kept if first is None else first]
    for name, section in {**sections, **trials}.items():
        parts.append(f"<!-- trial: {name} -->\n{section}")
    return "\n".join(part.rstrip("\n") + "\n" for part in parts if part.strip())


def keep(path: Path, first: str | None, trials: Mapping[str, str]) -> None:
    """Replace these parts of the file, and leave its others."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.read_text() if path.exists() else ""
    path.write_text(merge(text, first, trials))
