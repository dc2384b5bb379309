"""Frames cut apart: where the cuts fall changes nothing, and floods end."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.wire.http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    FRAMES_A_TURN,
    FREE_FRAMES,
    FREE_FRAMES_PER_SEC,
    GOAWAY,
    HAS_PRIORITY,
    HEADER_BYTES,
    HEADERS,
    MAX_CONTINUATIONS,
    MAX_FRAME_BYTES,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    FrameReader,
    Http2Violation,
)

Told = list[tuple[int, int, int, bytes]]
MAX_BLOCK = 65536


def raw(kind: int, payload: bytes = b"", flags: int = 0, stream_id: int = 0) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags))
    return head + stream_id.to_bytes(4, "big") + payload


HELLO = PREFACE + raw(SETTINGS)
OPEN = raw(HEADERS, b"x", END_HEADERS, 1)


class Reading:
    """A reader, what it told and how it ended."""

    def __init__(self, *pieces: bytes, max_block: int = MAX_BLOCK) -> None:
        self.reader = FrameReader(max_block, 0.0)
        self.told: Told = []
        self.code: int | None = None
        self.feed(pieces)

    def feed(self, pieces: Iterable[bytes], now: float = 0.0) -> Reading:
        try:
            for piece in pieces:
                self._read(piece, now)
                while self.reader.more_bytes:
                    self._read(b"", now)
        except Http2Violation as violation:
            self.code = violation.code
        return self

    def _read(self, piece: bytes, now: float) -> None:
        for frame in self.reader.feed(piece, now):
            told = (frame.kind, frame.flags, frame.stream_id, frame.data)
            self.told.append(told)


def test_very_many_frames_come_in_turns() -> None:
    reader = FrameReader(MAX_BLOCK, 0.0)
    frame = raw(WINDOW_UPDATE, b"\0\0\0\1")
    assert len(list(reader.feed(HELLO + frame * 2500, 0.0))) == FRAMES_A_TURN
    assert reader.more_bytes
    assert len(list(reader.feed(frame[:5], 0.0))) == FRAMES_A_TURN
    assert reader.more_bytes
    assert len(list(reader.feed(frame[5:], 0.0))) == 2502 - 2 * FRAMES_A_TURN
    assert not reader.more_bytes


def test_others_have_their_turn_behind_a_large_read() -> None:
    reader = FrameReader(MAX_BLOCK, 0.0)
    frame = raw(DATA, b"x" * 16384, stream_id=1)
    assert len(list(reader.feed(HELLO + frame * 2, 0.0))) == 3
    assert reader.more_bytes
    assert not list(reader.feed(b"", 0.0))
    assert not reader.more_bytes


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    edges = sorted({0, len(data), *(place % len(data) for place in places)})
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


# Sound frames, unsound ones and what is none at all.
any_frame = st.builds(
    raw,
    st.one_of(st.integers(0, 11), st.integers(0, 255)),
    st.binary(max_size=40) | st.sampled_from([b"\0" * 4, b"\0" * 5, b"\0" * 8]),
    st.sampled_from([0, END_STREAM, END_HEADERS, 5, PADDED, HAS_PRIORITY, 0x2D, 255]),
    st.integers(0, 5) | st.integers(0, 2**31 - 1),
)
streams = st.lists(any_frame | st.binary(max_size=12), max_size=12).map(b"".join)
sound_frame = st.one_of(
    st.builds(raw, st.just(DATA), st.binary(max_size=99), st.just(0), st.just(1)),
    st.builds(raw, st.just(PING), st.binary(min_size=8, max_size=8)),
    st.builds(raw, st.integers(10, 255), st.binary(max_size=30), st.integers(0, 255)),
    st.just(raw(WINDOW_UPDATE, b"\0\0\0\1", 0, 1)),
    st.just(raw(HEADERS, b"a", 0, 1) + raw(CONTINUATION, b"b", END_HEADERS, 1)),
)
places = st.lists(st.integers(0, 10_000), max_size=30)


@given(streams, places)
def test_the_cuts_change_nothing(data: bytes, where: list[int]) -> None:
    whole = Reading(HELLO + OPEN + data)
    pieces = Reading(*cut(HELLO + OPEN + data, where))
    assert (pieces.told, pieces.code) == (whole.told, whole.code)


@given(st.lists(sound_frame, max_size=20), places)
def test_sound_frames_come_through_as_they_are(
    frames: list[bytes], where: list[int]
) -> None:
    sent = b"".join(frames)
    reading = Reading(HELLO + OPEN, *(cut(sent, where) if sent else ()))
    assert reading.code is None
    told = b"".join(data for kind, _, _, data in reading.told[2:])
    assert told == b"".join(frame for frame in frames if frame[3] <= CONTINUATION)
    assert not reading.reader.is_mid_head


@given(st.binary(max_size=200), places)
def test_rubbish_is_a_violation_or_waits_for_more(
    data: bytes, where: list[int]
) -> None:
    reading = Reading(*cut(PREFACE + data, where))
    assert reading.code in (None, PROTOCOL_ERROR, FRAME_SIZE_ERROR)


@given(streams, places)
def test_what_is_held_is_less_than_a_frame(data: bytes, where: list[int]) -> None:
    reading = Reading(HELLO)
    for piece in cut(OPEN + data, where):
        reading.feed([piece])
        if reading.code is not None:
            break
        assert len(reading.reader._partial) < MAX_FRAME_BYTES + HEADER_BYTES


FLOODS = {
    "empty DATA": raw(DATA, b"", 0, 1),
    "PING": raw(PING, b"x" * 8),
    "PING answers": raw(PING, b"x" * 8, 1),
    "SETTINGS": raw(SETTINGS),
    "SETTINGS acknowledged": raw(SETTINGS, b"", 1),
    "PRIORITY": raw(PRIORITY, b"\0" * 5, 0, 1),
    "GOAWAY": raw(GOAWAY, b"\0" * 8),
    "an unknown type": raw(0xAB),
    "ALTSVC": raw(10, b"\0\0"),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_ends(name: str) -> None:
    reading = Reading(HELLO + OPEN)
    before = len(reading.told)
    reading.feed([FLOODS[name] * (FREE_FRAMES - 1)])
    assert reading.code is None, "the first SETTINGS was one, too"
    reading.feed([FLOODS[name]])
    assert reading.code == ENHANCE_YOUR_CALM
    assert len(reading.told) < before + FREE_FRAMES


@pytest.mark.parametrize("name", FLOODS)
def test_the_allowance_comes_back(name: str) -> None:
    reading = Reading(HELLO + OPEN)
    now = 0.0
    for _ in range(5 * FREE_FRAMES):
        now += 1 / FREE_FRAMES_PER_SEC
        reading.feed([FLOODS[name]], now)
    assert reading.code is None


def test_a_quiet_hour_allows_no_more_than_the_first_second() -> None:
    reading = Reading(HELLO).feed([FLOODS["PING"] * FREE_FRAMES], 3600.0)
    assert reading.code is None
    reading.feed([FLOODS["PING"]], 3600.0)
    assert reading.code == ENHANCE_YOUR_CALM


@pytest.mark.parametrize(
    "frame",
    [
        raw(DATA, b"x", 0, 1),
        raw(DATA, b"", END_STREAM, 1),
        raw(WINDOW_UPDATE, b"\0\0\0\1"),
        raw(RST_STREAM, b"\0" * 4, 0, 1),
        raw(HEADERS, b"x", END_HEADERS, 3),
    ],
    ids=["DATA", "the end of a body", "WINDOW_UPDATE", "RST_STREAM", "HEADERS"],
)
def test_what_says_something_is_not_counted_here(frame: bytes) -> None:
    assert Reading(HELLO + OPEN, frame * (2 * FREE_FRAMES)).code is None


def test_a_header_block_may_be_so_many_frames() -> None:
    pieces = raw(CONTINUATION, b"x", 0, 1) * (MAX_CONTINUATIONS - 1)
    end = raw(CONTINUATION, b"x", END_HEADERS, 1)
    begun = HELLO + raw(HEADERS, b"x", 0, 1) + pieces
    assert Reading(begun + end).code is None
    assert Reading(begun + pieces[:10] + end).code == ENHANCE_YOUR_CALM


def test_a_header_block_may_be_so_long() -> None:
    half = b"x" * 5_000
    begun = HELLO + raw(HEADERS, half, 0, 1)
    last = raw(CONTINUATION, half, END_HEADERS, 1)
    assert Reading(begun + last, max_block=10_000).code is None
    assert Reading(begun + last, max_block=9_999).code == ENHANCE_YOUR_CALM
    next_one = raw(HEADERS, half, END_HEADERS, 3)
    assert Reading(begun + last + next_one, max_block=10_000).code is None


def test_an_endless_header_block_is_cut_within_its_limit() -> None:
    reading = Reading(HELLO + raw(HEADERS, b"x", 0, 1))
    for _ in range(20):
        reading.feed([raw(CONTINUATION, b"x" * MAX_FRAME_BYTES, 0, 1)])
        if reading.code is not None:
            break
    assert reading.code == ENHANCE_YOUR_CALM
    assert sum(len(data) for _, _, _, data in reading.told) <= MAX_BLOCK + 200


def test_a_frame_that_is_too_long_is_not_waited_for() -> None:
    head = (MAX_FRAME_BYTES + 1).to_bytes(3, "big") + bytes((DATA, 0, 0, 0, 0, 1))
    assert Reading(HELLO + OPEN + head).code == FRAME_SIZE_ERROR


@pytest.mark.parametrize(
    ("data", "is_mid_head"),
    [
        (b"", True),
        (PREFACE[:-1], True),
        (PREFACE, False),
        (HELLO[:-1], True),
        (HELLO, False),
        (HELLO + b"\0", True),
        (HELLO + OPEN[:-1], True),
        (HELLO + OPEN, False),
        (HELLO + raw(HEADERS, b"x", 0, 1), True),
        (HELLO + raw(HEADERS, b"x", 0, 1) + raw(CONTINUATION, b"x", 4, 1), False),
        (HELLO + OPEN + raw(DATA, b"xx", 0, 1)[:-1], False),
    ],
)
def test_what_is_owed_is_known(data: bytes, is_mid_head: bool) -> None:
    reading = Reading(*([data] if data else []))
    assert reading.code is None
    assert reading.reader.is_mid_head is is_mid_head


def settings_told(payload: bytes) -> bytes:
    return Reading(HELLO, raw(SETTINGS, payload)).told[-1][3][HEADER_BYTES:]


def test_unknown_settings_are_left_out() -> None:
    window, table = b"\0\4\0\0\0\1", b"\0\1\0\0\0\2"
    unknown = b"\0\7\0\0\0\1", b"\1\4\0\0\0\1", b"\xff\xff\0\0\0\0"
    assert settings_told(window + table) == window + table
    assert settings_told(unknown[0] + window + unknown[1] + table) == window + table
    assert settings_told(b"".join(unknown)) == b""


@given(
    st.binary(max_size=60),
    st.none() | st.integers(0, 255),
    st.none() | st.binary(min_size=5, max_size=5),
)
def test_padding_and_priority_of_a_head_are_left_out(
    block: bytes, padding: int | None, priority: bytes | None
) -> None:
    flags = END_HEADERS | END_STREAM
    payload = block
    if priority is not None:
        payload = priority + payload
        flags |= HAS_PRIORITY
    if padding is not None:
        payload = bytes((padding,)) + payload + b"\0" * padding
        flags |= PADDED
    reading = Reading(HELLO, raw(HEADERS, payload, flags, 1))
    plain = raw(HEADERS, block, END_HEADERS | END_STREAM, 1)
    assert reading.told[-1][3] == plain
