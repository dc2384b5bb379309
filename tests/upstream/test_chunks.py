"""Chunked answers, however their bytes were cut on the way.

A read that is exactly one chunk takes a way of its own; no order of such reads and
others may be told apart behind it.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.errors import ReplyMalformed
from smgproxy.wire.http1_response import sole_chunk
from tests.upstream.stage import STREAM, FakeLoop, Kept, Line

LAST = b"0\r\n\r\n"
PAYLOADS = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=20),
        st.sampled_from((b"\r\n", b"0\r\n\r\n", b"1\r\na\r\n", b"x" * 5000)),
    ),
    max_size=8,
)


def coded(payload: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(payload), payload)


@given(PAYLOADS, st.data())
def test_any_cut_of_a_chunked_answer_gives_its_payload(
    payloads: list[bytes], data: st.DataObject
) -> None:
    chunks = [coded(payload) for payload in payloads]
    if data.draw(st.booleans(), "at chunk borders"):
        reads = [*chunks, LAST]
    else:
        whole = b"".join(chunks) + LAST
        cuts = sorted(data.draw(st.sets(st.integers(1, len(whole)), max_size=12)))
        ends = [0, *cuts, len(whole)]
        reads = [whole[a:b] for a, b in zip(ends, ends[1:]) if a < b]
    loop = FakeLoop()
    try:
        line, kept = Line(loop), Kept()
        leg = line.send()
        line.says(STREAM)
        leg.join(kept)
        for read in reads:
            line.says(read)
        assert b"".join(kept.pieces) == b"".join(payloads)
        assert kept.is_ended
        assert line.state == "idle"
    finally:
        loop.close()


def test_each_chunk_that_comes_alone_is_delivered_at_once(line: Line) -> None:
    kept = Kept()
    leg = line.send()
    line.says(STREAM)
    leg.join(kept)
    for payload in (b"one", b"two"):
        line.says(coded(payload))
        assert kept.pieces[-1] == payload


def test_a_chunk_behind_half_a_chunk_is_payload(line: Line) -> None:
    kept = Kept()
    leg = line.send()
    line.says(STREAM + b"8\r\n")
    leg.join(kept)
    line.says(b"3\r\none\r\n")
    assert kept.pieces == [b"3\r\none\r\n"]


@pytest.mark.parametrize(
    "data",
    (
        b"",
        b"3\r\none",
        b"3\r\none\n",
        b"3\r\none\r\n0\r\n\r\n",
        b"4\r\none\r\n",
        b"2\r\none\r\n",
        b"03\r\none\r\n",
        b"+3\r\none\r\n",
        b"3;a=b\r\none\r\n",
        b"3 \r\none\r\n",
        b"\r\n",
        b"0\r\n\r\n",
        b"\r\n\r\n",
    ),
)
def test_only_a_read_that_is_one_plain_chunk_is_taken_for_one(data: bytes) -> None:
    assert sole_chunk(data) == b""


@pytest.mark.parametrize("size", (b"+3", b"3_", b"0x3", b" 3", b"-1"))
def test_a_malformed_size_behind_good_chunks_breaks_the_answer(
    line: Line, size: bytes
) -> None:
    kept = Kept()
    leg = line.send()
    line.says(STREAM)
    leg.join(kept)
    line.says(coded(b"one"))
    line.says(size + b"\r\none\r\n")
    assert isinstance(kept.error, ReplyMalformed)
    assert line.state == "gone"
