"""What is remembered of heads' lines is bounded, and never what was refused."""

from __future__ import annotations

import pytest

from smgproxy.wire.http1 import BadMessage, Lines


def _upper(line: bytes) -> bytes:
    if b"!" in line:
        raise BadMessage("malformed")
    return line.upper()


def test_a_line_that_comes_again_is_not_read_again() -> None:
    lines = Lines(_upper)
    assert lines[b"a: 1"] is lines[b"a: 1"]


def test_however_many_lines_come_few_are_kept() -> None:
    lines = Lines(_upper)
    for number in range(5000):
        line = b"a: %d" % number
        assert lines[line] == line.upper()
        assert len(lines) <= 1024


@pytest.mark.parametrize(
    "line",
    [
        b"a" * 49,
        b"x-request-id: 123e4567-e89b-12d3-a456-426614174000",
        b"Authorization: Bearer short",
        b"Cookie: a=1",
    ],
)
def test_long_lines_and_those_with_secrets_are_not_kept(line: bytes) -> None:
    lines = Lines(_upper)
    assert lines[line] == line.upper()
    assert not lines


def test_a_line_that_is_refused_is_refused_again() -> None:
    lines = Lines(_upper)
    for _ in range(2):
        with pytest.raises(BadMessage):
            lines[b"a!"]
    assert not lines
