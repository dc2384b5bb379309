"""YAML with places: files that cannot be read, text that is no YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from smgproxy.admission.yamlfile import (
    MAX_BYTES,
    YamlFault,
    one_of,
    parse_yaml,
    read_yaml,
)


def fault_of(text: bytes) -> str:
    """The one line a text is refused with, read for its entries."""
    with pytest.raises(YamlFault) as caught:
        document = parse_yaml(text, "f")
        assert document is not None
        for value in document.entries().values():
            value.integer(0)
    fault = str(caught.value)
    assert fault.isprintable()
    return fault


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (b"a: [1\nb: 2\n", "f:2: not valid YAML: while parsing a flow sequence"),
        (b"a: 1\n b: 2\n", "f:2: not valid YAML: "),
        (b"a: 1\n\tb: 2\n", "f:2: not valid YAML: "),
        (b"a: *gone\n", "f:1: not valid YAML: found undefined alias"),
        (b"a: 1\n---\nb: 2\n", "f:2: not valid YAML: expected a single document"),
        (b"a: \xff\xfe\n", "f: not valid YAML: "),
        (b"a: \x00\n", "f: not valid YAML: "),
        (b"[" * 50_000, "f: nested too deeply"),
        (b"- a\n", "f:1: must be a mapping, not a list"),
        (b"word\n", "f:1: must be a mapping, not word"),
        (b"? [a, b]\n: 1\n", "f:1: a key must be a plain word"),
        (b"a: 1\nb: 1\na: 2\n", "f:3: a: given twice, first in line 1"),
        (b'"x\\ny": -1\n', r"f:1: 'x\ny': must be a whole number"),
        (b'a: "x\\ny"\n', r"f:1: a: must be a whole number, 0 or more, not 'x\ny'"),
        (
            b"a: " + b"9" * 99,
            "f:1: a: must be a whole number, 0 or more, not " + "9" * 40,
        ),
        (b"a: 0x10\n", "f:1: a: must be a whole number"),
        (b"a: {b: 1}\n", "f:1: a: must be a whole number, 0 or more, not a mapping"),
        (b"a: &a {b: *a}\n", "f:1: a: must be a whole number"),
        (b"<<: {a: 1}\n", "f:1: <<: must be a whole number"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(
    text: bytes, start: str
) -> None:
    assert fault_of(text).startswith(start)


def test_whole_values_may_be_repeated_by_alias() -> None:
    document = parse_yaml(b"a: &n 7\nb: *n\n", "f")
    assert document is not None
    assert [each.integer(0) for each in document.entries().values()] == [7, 7]


@pytest.mark.parametrize(
    ("text", "value"), [(b"0.25", 0.25), (b"1", 1.0), (b"+.5e1", 5.0), (b"2.", 2.0)]
)
def test_numbers_are_decimal(text: bytes, value: float) -> None:
    document = parse_yaml(b"a: " + text, "f")
    assert document is not None
    assert document.entries()["a"].number() == value


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "none.yaml")
    with pytest.raises(YamlFault) as caught:
        read_yaml(path)
    assert str(caught.value) == (
        f"{path}: cannot be read: No such file or directory; "
        "give the path of a readable YAML file"
    )


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(YamlFault, match="cannot be read: Is a directory"):
        read_yaml(str(tmp_path))


def test_a_path_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(YamlFault, match="cannot be read: embedded null byte"):
        read_yaml("a\0b")


def test_a_file_too_long_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(YamlFault, match="longer than 4194304 bytes"):
        read_yaml(str(path))


def test_words_are_listed_as_one_reads_them() -> None:
    assert [one_of("a"), one_of("ab"), one_of("abc")] == ["a", "a or b", "a, b or c"]
