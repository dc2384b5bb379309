"""However small the reads and however hostile the bytes, work grows with their number.

Bytes looked at and copied are counted, not time: a clock says little on a busy machine.
"""

from __future__ import annotations

import re
from typing import SupportsIndex

import pytest

from smgproxy.wire import http1
from smgproxy.wire.http1 import BadMessage, ChunkedDecoder
from tests.wire.case import get, ok
from tests.wire.reading import Requests, Responses


class Tally:
    """Bytes looked at or copied so far."""

    def __init__(self) -> None:
        self.bytes = 0


class CountedHead(bytearray):
    """Counts what a search may have to look at."""

    tally: Tally

    def find(
        self,
        sub: object,
        start: SupportsIndex | None = 0,
        end: SupportsIndex | None = None,
        /,
    ) -> int:
        first = int(start or 0)
        last = len(self) if end is None else min(int(end), len(self))
        found = super().find(sub, first, last)  # type: ignore[arg-type]
        self.tally.bytes += (last if found < 0 else found) - first
        return found


class CountedPattern:
    """A pattern whose searches count what they may look at."""

    def __init__(self, pattern: re.Pattern[bytes], tally: Tally) -> None:
        self.pattern = pattern
        self.tally = tally

    def search(self, data: bytes, start: int = 0) -> re.Match[bytes] | None:
        self.tally.bytes += len(data) - start
        return self.pattern.search(data, start)


class CountedBytes(bytes):
    """Counts what slices of it copy."""

    tally: Tally

    def __getitem__(self, key: object) -> bytes:  # type: ignore[override]
        piece = super().__getitem__(key)  # type: ignore[call-overload]
        assert isinstance(piece, bytes)
        self.tally.bytes += len(piece)
        return piece


@pytest.fixture
def tally(monkeypatch: pytest.MonkeyPatch) -> Tally:
    tally = Tally()
    counted = CountedPattern(http1._BROKEN_LINES, tally)
    monkeypatch.setattr(http1, "_BROKEN_LINES", counted)
    return tally


def _counted_head(tally: Tally) -> CountedHead:
    head = CountedHead()
    head.tally = tally
    return head


def _singles(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


@pytest.mark.parametrize("size", [4000, 60000])
def test_request_head_byte_by_byte_is_looked_at_a_few_times(
    tally: Tally, size: int
) -> None:
    head = get(b"x: " + b"y" * size)
    found = Requests()
    found.reader._partial.data = _counted_head(tally)

    found.feed(*_singles(head))

    assert len(found.seen) == 1
    assert len(head) < tally.bytes < 30 * len(head)


@pytest.mark.parametrize("size", [4000, 60000])
def test_response_head_byte_by_byte_is_looked_at_a_few_times(
    tally: Tally, size: int
) -> None:
    head = ok(b"x: " + b"y" * size, b"Content-Length: 0")
    found = Responses()
    found.reader._partial.data = _counted_head(tally)

    found.feed(*_singles(head))

    assert found.ended == 1
    assert len(head) < tally.bytes < 20 * len(head)


@pytest.mark.parametrize("chunks", [100, 20000])
def test_many_chunks_in_one_read_are_copied_once(tally: Tally, chunks: int) -> None:
    data = CountedBytes(b"3\r\nabc\r\n" * chunks + b"0\r\n\r\n")
    data.tally = tally

    body, end = ChunkedDecoder(1024).feed(data)

    assert (len(body), end) == (3 * chunks, len(data))
    assert tally.bytes <= len(data)


def test_large_chunked_upload_byte_by_byte() -> None:
    body = b"%x\r\n%b\r\n" % (50000, b"b" * 50000) + b"0\r\nx: " + b"y" * 9000
    found = Requests().feed(get(b"Transfer-Encoding: chunked"))

    found.feed(*_singles(body + b"\r\n\r\n"))

    assert found.seen[0].is_ended
    assert found.seen[0].body == b"b" * 50000
    assert found.seen[0].pieces == 50001


# Quadratic matching would take minutes here, and so the test's timeout.
HOSTILE = {
    "leading_blanks": b"x:" + b" " * 60000 + b"\x01",
    "trailing_blanks": b"x: y" + b" " * 60000 + b"\x01",
    "blanks_between": b"x: " + b"y " * 30000 + b"\x01",
    "runs_of_blanks": b"x: " + (b"y" + b" " * 200) * 300 + b"\x01",
    "long_name": b"x" * 60000,
    "many_colons": b"x" + b":" * 60000 + b"\x01",
    "host": b"y: z\r\nhost: " + b"a" * 60000 + b"/",
    "host_of_percents": b"y: z\r\nhost: " + b"%aa" * 20000 + b"/",
    "length": b"content-length: " + b"1" * 60000,
    "connection": b"connection: " + b"," * 60000 + b"\x01",
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_hostile_field_is_refused_in_linear_time(line: bytes) -> None:
    assert Requests().feed(get(line)).refused == 400
    assert Responses().feed(ok(line, b" ")).is_malformed


@pytest.mark.parametrize(
    "target",
    [
        b"http://" + b"a" * 16000 + b"|",
        b"http://a" + b"?" * 16000 + b"#",
        b"/" + b"?" * 16000 + b"#",
        b"http://[" + b":" * 16000,
    ],
)
def test_hostile_target_is_refused_in_linear_time(target: bytes) -> None:
    assert Requests().feed(get(target=target)).refused == 400


def test_size_line_that_never_ends_is_refused_early() -> None:
    decoder = ChunkedDecoder(1024)
    decoder.feed(b"5;" + b"a" * 200)
    with pytest.raises(BadMessage):
        decoder.feed(b"a" * 200)


def test_trailers_that_never_end_are_refused_early() -> None:
    decoder = ChunkedDecoder(1024)
    decoder.feed(b"0\r\n" + b"x: y\r\n" * 150 + b"z: ")
    with pytest.raises(BadMessage) as caught:
        decoder.feed(b"z" * 200)
    assert caught.value.status == 431
