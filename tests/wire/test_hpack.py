"""Header blocks that are remembered are read as hpack reads them each time."""

from __future__ import annotations

from hpack import Decoder, Encoder
from hpack.exceptions import HPACKError
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.wire.hpack import RememberingDecoder

LIMIT = 65536
names = st.sampled_from([b":method", b"x-a", b"x-b", b"cookie"])
values = st.sampled_from([b"", b"GET", b"v", b"w" * 90, b"x" * 300])
fields = st.lists(st.tuples(names, values, st.booleans()), max_size=4)
sizes = st.sampled_from([0, 50, 200, 400])


def outcome(decoder: Decoder, block: bytes) -> object:
    """What is read, and the table behind it; an error's kind."""
    try:
        read = list(decoder.decode(block, raw=True))
    except HPACKError as error:
        return type(error)
    return read, list(decoder.header_table.dynamic_entries)


@given(st.lists(st.one_of(fields, fields, fields, sizes), max_size=40))
def test_a_block_seen_before_says_what_it_says_now(
    steps: list[int | list[tuple[bytes, bytes, bool]]],
) -> None:
    encoder, ours, theirs = Encoder(), RememberingDecoder(LIMIT), Decoder(LIMIT)
    encoder.header_table_size = 400
    for step in steps:
        if isinstance(step, int):
            encoder.header_table_size = step
            continue
        block = encoder.encode(step)
        read = outcome(theirs, block)
        assert outcome(ours, block) == read
        if isinstance(read, type):
            return  # its connection would end


def test_a_block_of_very_many_fields_is_not_kept() -> None:
    decoder = RememberingDecoder(LIMIT)
    assert len(decoder.decode(b"\x82" * 1000, raw=True)) == 1000
    assert len(decoder.decode(b"\x82", raw=True)) == 1
    assert list(decoder._kept) == [b"\x82"]
