"""The gateway's own JSON."""

from __future__ import annotations

import pytest

from smgproxy.wire.json import dumps, loads


def test_what_is_written_is_compact_and_raw() -> None:
    assert dumps({"url": "http://x/ä", "n": None}) == (
        '{"url":"http://x/ä","n":null}'.encode()
    )


def test_line_ends_are_escaped() -> None:
    assert dumps("a\r\nb") == rb'"a\r\nb"'


@pytest.mark.parametrize("text", [b"", b"{", b"<html>", b'{"a":}'])
def test_what_is_no_json_is_a_value_error(text: bytes) -> None:
    with pytest.raises(ValueError):
        loads(text)


def test_what_is_read_comes_back() -> None:
    assert loads(b'{"data":[{"id":"m"}]}') == {"data": [{"id": "m"}]}
