"""Whatever a client of HTTP/2 sends, the connection goes on or ends in good order."""

from __future__ import annotations

from hyperframe.frame import GoAwayFrame
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.exchange import Verdict
from smgproxy.core.flow import Hold
from tests.downstream.h2_stage import (
    HELLO,
    REQUEST,
    Http2Room,
    block,
    data,
    goaway,
    headers,
    ping,
    raw,
    rst,
    settings,
    window,
    with_fields,
)
from tests.downstream.stage import answer, begin

streams = st.sampled_from([0, 1, 2, 3, 5, 7, 9, 2**31 - 1])
sizes = st.sampled_from([0, 1, 100, 16384, 65535, 2**31 - 1])
blocks = st.one_of(
    st.just(block(REQUEST)),
    st.just(block(with_fields((b"content-length", b"3")))),
    st.just(block(((b"x-sum", b"1"),))),
    st.binary(max_size=30),
)
sound = st.one_of(
    st.builds(headers, streams.filter(bool), end=st.booleans()),
    st.builds(
        data,
        streams.filter(bool),
        st.binary(max_size=9),
        st.booleans(),
        st.integers(0, 9),
    ),
    st.builds(rst, streams.filter(bool), st.integers(0, 2**32 - 1)),
    st.builds(window, streams, sizes),
    st.builds(ping, st.binary(min_size=8, max_size=8)),
    st.builds(goaway),
    st.builds(settings, initial_window_size=sizes),
    st.builds(settings, max_frame_size=sizes, header_table_size=sizes),
    st.builds(settings, enable_push=st.integers(0, 2)),
)
unsound = st.one_of(
    st.builds(raw, st.just(1), blocks, st.sampled_from([0, 1, 4, 5, 0x2D]), streams),
    st.builds(raw, st.just(9), blocks, st.sampled_from([0, 4]), streams),
    st.builds(
        raw, st.integers(0, 12), st.binary(max_size=12), st.integers(0, 255), streams
    ),
    st.binary(min_size=1, max_size=12),
)
# What the gateway's own side does between two reads, by number.
ours = st.tuples(st.integers(0, 5), st.integers(0, 20))
said = st.lists(sound | sound | sound | unsound | ours, max_size=25)


def act(room: Http2Room, deed: int, number: int) -> None:
    """Something that an exchange may do, if there is one."""
    running = [e for e in room.exchanges if e.verdict is None and not e.status]
    if not running:
        return
    exchange = running[number % len(running)]
    if deed == 0:
        answer(exchange, b"x" * 100_000)
    elif deed == 1:
        begin(exchange).deliver(b"x" * 1000)
    elif deed == 2:
        begin(exchange).fail(ValueError())
    elif deed == 3:
        exchange.request.hold(Hold.SINK_FULL)
    elif deed == 4:
        exchange.request.release(Hold.SINK_FULL)
    else:
        room.transport.peer_reads()
    room.turn()


@given(said, st.sampled_from([1, 50, 100_000]), st.booleans())
def test_whatever_comes_is_taken_or_ends_the_connection(
    told: list[bytes | tuple[int, int]], step: int, is_stalled: bool
) -> None:
    room = Http2Room(HELLO)
    if is_stalled:
        room.transport.peer_stalls()
    for part in told:
        if isinstance(part, tuple):
            act(room, *part)
        else:
            room.says(*(part[at : at + step] for at in range(0, len(part), step)))
    room.transport.peer_reads()
    room.turn()
    ends = room.of_kind(GoAwayFrame)
    assert len(ends) <= 1
    if ends:
        assert room.transport.is_eof_written
        assert room.listener.http2.errors.get(ends[0].error_code)
    if not room.transport.is_closing():
        room.transport.peer_closes()
    room.turn()
    assert room.listener.open_connections == 0
    assert not room.connection._streams
    for exchange in room.exchanges:
        assert exchange.verdict is Verdict.CLIENT_GONE or exchange.status
        assert exchange.request.is_ended or exchange.status
