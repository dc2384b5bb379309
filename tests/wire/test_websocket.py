"""Frames on their way through, sans I/O: what passes, what does not, and why."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.wire.websocket import FrameError, FrameWatch, close_frame, read_close
from tests.fakes.websocket import BINARY, CLOSE, PING, TEXT, close_payload, frame
from tests.wire.frame_corpus import CASES, MASK, Case, passing

SIDES = {"client": True, "worker": False}


def _cuts(data: bytes, how: str) -> list[bytes]:
    if how == "whole":
        return [data]
    if how == "bytes":
        head = min(len(data), 600)
        return [data[n : n + 1] for n in range(head)] + [data[head:]]
    rng = random.Random(len(data))
    places = sorted(rng.randrange(len(data) + 1) for _ in range(8))
    bounds = [0, *places, len(data)]
    return [data[a:b] for a, b in zip(bounds, bounds[1:])]


def _run(watch: FrameWatch, pieces: list[bytes]) -> tuple[bytes, int | None]:
    passed = b""
    try:
        for piece in pieces:
            passed += watch.feed(piece)
    except FrameError as error:
        return passed + error.passed, error.code
    return passed, None


def test_the_corpus_is_large_enough() -> None:
    assert len(CASES) >= 120
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("how", ["whole", "bytes", "cut"])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_corpus(case: Case, side: str, how: str) -> None:
    is_client = SIDES[side]
    encoded = [piece.encoded(is_client) for piece in case.pieces]
    watch = FrameWatch(is_client=is_client, has_deflate=case.has_deflate)
    passed, code = _run(watch, _cuts(b"".join(encoded), how))
    assert code == case.code
    assert passed == b"".join(encoded[: len(passing(case))])
    assert watch.is_between
    if case.closes is None:
        assert watch.closing is None
    else:
        assert watch.closing is not None and watch.closing.code == case.closes


@pytest.mark.parametrize("is_client", [True, False])
def test_a_mask_that_is_missing_or_must_not_be_is_an_error(is_client: bool) -> None:
    wrong = frame(TEXT, b"x", mask=None if is_client else MASK)
    with pytest.raises(FrameError) as caught:
        FrameWatch(is_client=is_client).feed(wrong)
    assert caught.value.code == 1002
    assert caught.value.reason == (
        "frame is not masked" if is_client else "frame is masked"
    )


def test_a_header_that_is_bad_never_passes_not_even_its_first_byte() -> None:
    watch = FrameWatch(is_client=True)
    assert watch.feed(b"\x81") == b""
    with pytest.raises(FrameError) as caught:
        watch.feed(b"\x05")
    assert caught.value.passed == b""


def test_a_close_passes_only_whole() -> None:
    data = frame(CLOSE, close_payload(1000, "done"), mask=MASK)
    watch = FrameWatch(is_client=True)
    for at in range(len(data) - 1):
        assert watch.feed(data[at : at + 1]) == b""
        assert watch.is_between
    assert watch.feed(data[-1:]) == data
    assert watch.closing is not None
    assert (watch.closing.code, watch.closing.reason) == (1000, "done")


def test_nothing_passes_behind_a_close() -> None:
    close, text = frame(CLOSE, close_payload(1000)), frame(TEXT, b"late")
    watch = FrameWatch(is_client=False)
    assert watch.feed(close + text) == close
    assert watch.feed(text) == b""


def test_nothing_passes_behind_an_error() -> None:
    watch = FrameWatch(is_client=False)
    with pytest.raises(FrameError):
        watch.feed(b"\xff\xff")
    assert watch.feed(frame(TEXT, b"x")) == b""


def test_no_frame_can_be_put_within_another() -> None:
    data = frame(BINARY, b"*" * 300)
    watch = FrameWatch(is_client=False)
    assert watch.is_between
    watch.feed(data[:100])
    assert not watch.is_between
    watch.feed(data[100:])
    assert watch.is_between


def test_a_message_is_measured_over_its_fragments() -> None:
    watch = FrameWatch(is_client=False, max_message_bytes=1000)
    watch.feed(frame(TEXT, b"*" * 1000))
    first = frame(TEXT, b"*" * 600, final=False)
    assert watch.feed(first + frame(PING, b"*" * 100)) != b""
    with pytest.raises(FrameError) as caught:
        watch.feed(frame(0, b"*" * 401))
    assert caught.value.code == 1009


def test_a_frame_beyond_the_limit_is_refused_by_its_header() -> None:
    watch = FrameWatch(is_client=True, max_message_bytes=1 << 20)
    with pytest.raises(FrameError) as caught:
        watch.feed(frame(BINARY, b"*" * ((1 << 20) + 1), mask=MASK)[:14])
    assert caught.value.code == 1009


@pytest.mark.parametrize("is_masked", [True, False])
@pytest.mark.parametrize("code", [1000, 1001, 1011, 4999])
def test_a_close_that_is_made_is_one_that_can_be_read(
    code: int, is_masked: bool
) -> None:
    found = read_close(
        close_frame(code, "why", is_masked=is_masked), is_masked=is_masked
    )
    assert (found.code, found.reason) == (code, "why")


def test_a_close_without_a_code_has_no_payload() -> None:
    assert close_frame(1005, is_masked=False) == b"\x88\x00"


def test_a_reason_is_cut_to_what_a_control_frame_holds() -> None:
    made = close_frame(1011, "ä" * 100, is_masked=False)
    assert len(made) <= 127
    read_close(made, is_masked=False)


@given(
    st.lists(
        st.tuples(st.sampled_from([TEXT, BINARY, PING]), st.binary(max_size=200)),
        max_size=20,
    ),
    st.lists(st.integers(1, 300), max_size=40),
    st.booleans(),
)
def test_legal_frames_pass_byte_for_byte_however_they_are_cut(
    messages: list[tuple[int, bytes]], sizes: list[int], is_client: bool
) -> None:
    mask = MASK if is_client else None
    frames = [
        frame(op, data[: 125 if op == PING else 200], mask=mask)
        for op, data in messages
    ]
    data = b"".join(frames)
    watch = FrameWatch(is_client=is_client)
    passed, rest = b"", data
    for size in sizes:
        passed += watch.feed(rest[:size])
        rest = rest[size:]
    passed += watch.feed(rest)
    assert passed == data
    assert watch.is_between


@given(st.binary(max_size=400), st.booleans())
def test_rubbish_passes_or_raises_and_nothing_else(
    data: bytes, is_client: bool
) -> None:
    watch = FrameWatch(is_client=is_client)
    passed, code = _run(watch, [data[:7], data[7:]])
    assert data.startswith(passed)
    assert code in (None, 1002, 1007)
