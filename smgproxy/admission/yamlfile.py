"""YAML files whose every fault can be shown: by line, and by the path of keys to it.

The text is composed into nodes, never into objects, so that each value still knows its
line, and a key given twice can be told. Scalars are read as YAML 1.2 has them: ``yes``
is a word and ``1:30`` no number.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import yaml

MAX_BYTES = 4 * 1024 * 1024
# Without leading zeros, which are octal to some readers.
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})", re.ASCII)
_NUMBER = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_NULLS = {"", "~", "null", "Null", "NULL"}
_BOOLEANS = {"true": True, "false": False}


class YamlFault(ValueError):
    """One line: file, line, path of keys, what is wrong and what would be right."""

    def __init__(self, place: str, line: int, path: str, what: str) -> None:
        where = f"{place}:{line}: " if line else f"{place}: "
        super().__init__(where + (f"{path}: {what}" if path else what))


class Value:
    """A value of the file, with its place."""

    __slots__ = ("_node", "_file", "_path", "_line")

    def __init__(self, node: yaml.Node, file: str, path: str, line: int) -> None:
        self._node = node
        self._file = file
        self._path = path
        self._line = line  # of its key, where one looks for it

    def fault(self, what: str) -> YamlFault:
        """What is wrong here; to be raised."""
        return YamlFault(self._file, self._line, self._path, what)

    @property
    def is_null(self) -> bool:
        """Whether nothing stands behind the key."""
        node = self._node
        return (
            isinstance(node, yaml.ScalarNode)
            and node.style is None
            and node.value in _NULLS
        )

    def entries(self) -> dict[str, Value]:
        """The entries of a mapping, by key; nothing at all has none."""
        if self.is_null:
            return {}
        if not isinstance(self._node, yaml.MappingNode):
            raise self.fault(f"must be a mapping, not {self._shown()}")
        found: dict[str, Value] = {}
        lines: dict[str, int] = {}
        for key, node in self._node.value:
            name = self._key(key)
            line = key.start_mark.line + 1
            if name in found:
                raise YamlFault(
                    self._file,
                    line,
                    self._joined(name),
                    f"given twice, first in line {lines[name]}; remove one of them",
                )
            lines[name] = line
            found[name] = Value(node, self._file, self._joined(name), line)
        return found

    def fields(
        self, required: Collection[str], optional: Collection[str] = ()
    ) -> dict[str, Value]:
        """The entries of a mapping whose keys are known beforehand."""
        found = self.entries()
        known = (*required, *optional)
        for name, value in found.items():
            if name not in known:
                raise value.fault(f"unknown key; use {one_of(known)}")
        missing = [name for name in required if name not in found]
        if missing:
            needed = ", ".join(required)
            raise self.fault(f"{missing[0]} is missing; needed are {needed}")
        return found

    def items(self) -> list[Value]:
        """The items of a list; nothing at all has none."""
        if self.is_null:
            return []
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.fault(
                f"must be a list, its items begin with '- ', not {self._shown()}"
            )
        return [
            Value(node, self._file, f"{self._path}[{at}]", node.start_mark.line + 1)
            for at, node in enumerate(self._node.value)
        ]

    def text(self) -> str:
        """Text that cannot be taken for anything else."""
        node = self._node
        if isinstance(node, yaml.ScalarNode):
            text = str(node.value)
            is_other = text in _NULLS or text in _BOOLEANS or _NUMBER.fullmatch(text)
            if node.style is not None or not is_other:
                return text
        raise self.fault(f"must be text, in quotes, not {self._shown()}")

    def integer(self, minimum: int) -> int:
        """A whole number from ``minimum`` on."""
        text = self._plain()
        if text is not None and _INTEGER.fullmatch(text) and int(text) >= minimum:
            return int(text)
        raise self.fault(
            f"must be a whole number, {minimum} or more, not {self._shown()}"
        )

    def number(self) -> float:
        """A finite number from 0 on."""
        text = self._plain()
        if text is not None and _NUMBER.fullmatch(text):
            value = float(text)
            if 0 <= value < float("inf"):
                return value
        raise self.fault(f"must be a finite number, 0 or more, not {self._shown()}")

    def boolean(self) -> bool:
        """true or false."""
        text = self._plain()
        if text in _BOOLEANS:
            return _BOOLEANS[text]
        raise self.fault(f"must be true or false, not {self._shown()}")

    def word(self, words: Collection[str]) -> str:
        """One of some words."""
        node = self._node
        if isinstance(node, yaml.ScalarNode) and node.value in words:
            return str(node.value)
        raise self.fault(f"must be {one_of(words)}, not {self._shown()}")

    def _plain(self) -> str | None:
        node = self._node
        if isinstance(node, yaml.ScalarNode) and node.style is None:
            return str(node.value)
        return None

    def _key(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.ScalarNode):
            return str(node.value)
        line = node.start_mark.line + 1
        raise YamlFault(self._file, line, self._path, "a key must be a plain word")

    def _joined(self, name: str) -> str:
        # Like everything shown: on one line, whatever somebody wrote.
        shown = name if name.isprintable() else ascii(name)
        return f"{self._path}.{shown}" if self._path else shown

    def _shown(self) -> str:
        node = self._node
        if isinstance(node, yaml.MappingNode):
            return "a mapping"
        if not isinstance(node, yaml.ScalarNode):
            return "a list"
        if self.is_null:
            return "nothing"
        text = ascii(node.value) if node.style else node.value
        text = text if text.isprintable() else ascii(text)
        return text if len(text) <= 40 else text[:40] + "..."


def one_of(words: Collection[str]) -> str:
    """``a, b or c``."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last


def parse_yaml(text: bytes, file: str) -> Value | None:
    """The one document in a file; None if it is empty. Raises YamlFault."""
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(f"{error.context or ''} {error.problem or ''}".split())
        raise YamlFault(
            file, mark.line + 1 if mark else 0, "", f"not valid YAML: {what}"
        ) from error
    except yaml.YAMLError as error:  # bytes that are no text: it has no line
        what = " ".join(str(error).split())
        raise YamlFault(file, 0, "", f"not valid YAML: {what}") from error
    except RecursionError as error:
        raise YamlFault(file, 0, "", "nested too deeply") from error
    return None if node is None else Value(node, file, "", node.start_mark.line + 1)


def read_yaml(path: str) -> Value | None:
    """Like parse_yaml, of a file. Raises YamlFault, also when it cannot be read."""
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        what = f"cannot be read: {reason}; give the path of a readable YAML file"
        raise YamlFault(path, 0, "", what) from error
    if len(text) > MAX_BYTES:
        raise YamlFault(path, 0, "", f"longer than {MAX_BYTES} bytes; shorten it")
    return parse_yaml(text, path)
