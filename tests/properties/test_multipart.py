"""Forms come out as they were written, wherever they are cut; rubbish is refused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smgproxy.wire.multipart import FormReader, MultipartError, part_head
from tests.wire.test_multipart import Kept

BOUNDARY = b"b-"
# Rich in what delimiters are made of.
DATA = st.lists(
    st.sampled_from([b"\r", b"\n", b"-", b"b", b"\r\n--b", b"\x00", b"x" * 70])
).map(b"".join)
NAMES = st.sampled_from([b"file", b"model", b"a b;c"])
PARTS = st.lists(st.tuples(NAMES, st.none() | NAMES, st.none() | st.just(b"a/b"), DATA))
CUTS = st.lists(st.integers(0, 600), max_size=8)
DELIMITER = b"\r\n--" + BOUNDARY


def feed(data: bytes, cuts: list[int]) -> Kept:
    kept = Kept()
    reader = FormReader(BOUNDARY, kept)
    places = [0, *sorted(cuts), len(data)]
    for start, end in zip(places, places[1:]):
        reader.feed(data[start : max(start, end)])
    reader.finish()
    return kept


@given(parts=PARTS, cuts=CUTS, preamble=st.sampled_from([b"", b"a\r\n"]))
def test_what_is_written_is_what_is_read(
    parts: list[tuple[bytes, bytes | None, bytes | None, bytes]],
    cuts: list[int],
    preamble: bytes,
) -> None:
    parts = [part for part in parts if DELIMITER not in b"\r\n" + part[3]]
    form = preamble + b"".join(
        b"--%b\r\n%b%b\r\n" % (BOUNDARY, part_head(name, filename, kind), data)
        for name, filename, kind, data in parts
    )
    form += b"--%b--\r\n" % BOUNDARY
    cuts = [min(cut, len(form)) for cut in cuts]
    assert feed(form, cuts).parts == parts


@given(st.binary() | DATA, CUTS)
def test_any_other_bytes_are_refused_or_read(data: bytes, cuts: list[int]) -> None:
    cuts = [min(cut, len(data)) for cut in cuts]
    try:
        feed(DELIMITER[2:] + data, cuts)
    except MultipartError as error:
        assert len(str(error)) < 200
