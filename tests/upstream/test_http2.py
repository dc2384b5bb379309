"""A shared connection: answers side by side, credit, and giving up."""

from __future__ import annotations

import pytest

from smgproxy.core.errors import (
    ReplyBroken,
    ReplyMalformed,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.flow import Hold
from smgproxy.core.message import ResponseHead
from smgproxy.upstream.http2_leg import Http2Leg
from smgproxy.wire.hpack import PlainEncoder
from smgproxy.wire.http2 import (
    CANCEL,
    CONNECTION_WINDOW_BYTES,
    FLOWING_WINDOW_BYTES,
    PROTOCOL_ERROR,
    STREAM_WINDOW_BYTES,
)
from smgproxy.wire.http2_frames import encode_frame
from tests.fakes.clock import FakeClock
from tests.upstream.http2_stage import JSON, SharedLine
from tests.upstream.stage import Kept, ask


def head_of(leg: Http2Leg) -> ResponseHead:
    assert leg.head.done()
    return leg.head.result()


def error_of(leg: Http2Leg) -> BaseException:
    error = leg.head.exception()
    assert error is not None
    return error


# -- answers -------------------------------------------------------------------------


def test_answers_come_in_any_order(shared: SharedLine) -> None:
    one, other = shared.send(), shared.send()
    assert shared.requests() == shared.ended() == [1, 3]
    shared.answer(3, b"second")
    shared.answer(1, b"first")
    assert (one.take_all(), other.take_all()) == (b"first", b"second")
    assert shared.pool.counts() == (1, 0)


def test_requests_of_one_turn_leave_in_one_write(shared: SharedLine) -> None:
    shared.turn()
    writes = len(shared.transport.syscalls)
    for _ in range(5):
        shared.connection.send(ask(), b"w", 1e12)
    shared.turn()
    assert len(shared.transport.syscalls) == writes + 1
    assert len(shared.requests()) == 5


def test_one_read_is_one_delivery_to_each_leg(shared: SharedLine) -> None:
    legs = [shared.send(), shared.send()]
    sinks = [Kept(), Kept()]
    for leg, sink in zip(legs, sinks):
        shared.worker.send_headers(leg.stream_id, JSON)
        leg.join(sink)
    shared.turn()
    for piece in (b"a", b"b", b"c"):
        shared.worker.send_data(1, piece)
        shared.worker.send_data(3, piece * 2)
    shared.turn()
    assert [sink.pieces for sink in sinks] == [[b"abc"], [b"aabbcc"]]


def test_interim_heads_and_empty_data_are_skipped_and_trailers_dropped(
    shared: SharedLine,
) -> None:
    leg, sink = shared.send(), Kept()
    shared.worker.send_headers(1, [(":status", "103"), ("link", "x")])
    shared.head(1)
    leg.join(sink)
    shared.data(1, b"")
    shared.data(1, b"body")
    shared.worker.send_headers(1, [("x-trailer", "t")], end_stream=True)
    shared.turn()
    assert head_of(leg).status == 200
    assert sink.pieces == [b"body", b""] and sink.is_ended


@pytest.mark.parametrize("status", ["204", "304"])
def test_an_answer_without_a_body_may_have_a_length(
    status: str, shared: SharedLine
) -> None:
    leg = shared.send()
    shared.head(1, (":status", status), ("content-length", "9"), end=True)
    assert (head_of(leg).length, leg.take_all()) == (0, b"")


@pytest.mark.parametrize(
    "fields",
    [
        [(b"content-type", b"x")],
        [(b":status", b"200"), (b":status", b"200")],
        [(b"a", b"b"), (b":status", b"200")],
        [(b":status", b"2000")],
        [(b":status", b"101")],
        [(b":status", b"ok")],
        [(b":status", b"200"), (b":path", b"/")],
        [(b":status", b"200"), (b"Upper", b"x")],
        [(b":status", b"200"), (b"connection", b"close")],
        [(b":status", b"200"), (b"transfer-encoding", b"chunked")],
        [(b":status", b"200"), (b"a", b"b\r\nc")],
        [(b":status", b"200"), (b"content-length", b"1"), (b"content-length", b"2")],
        [(b":status", b"200"), (b"content-length", b"-1")],
        [(b":status", b"200"), *[(b"a%d" % n, b"") for n in range(257)]],
    ],
)
def test_a_malformed_head_is_a_502_of_its_stream_alone(
    fields: list[tuple[bytes, bytes]], shared: SharedLine
) -> None:
    leg, other = shared.send(), shared.send()
    shared.worker.data_to_send()
    shared.says(encode_frame(1, 0x4, 1, PlainEncoder().encode(fields)))
    error = error_of(leg)
    assert isinstance(error, ReplyMalformed) and error.status == 502
    assert shared.resets() == {1: PROTOCOL_ERROR}
    shared.answer(3)
    assert other.take_all() == b"ok"


def test_a_second_head_is_malformed(shared: SharedLine) -> None:
    leg, sink = shared.send(), Kept()
    shared.head(1)
    leg.join(sink)
    block = PlainEncoder().encode([(b"x", b"y")])
    shared.says(encode_frame(1, 0x4, 1, block))
    assert isinstance(sink.error, ReplyMalformed)


def test_a_body_before_its_head_is_malformed(shared: SharedLine) -> None:
    leg = shared.send()
    shared.says(encode_frame(0, 0, 1, b"body"))
    assert isinstance(error_of(leg), ReplyMalformed)


@pytest.mark.parametrize(
    ("length", "body", "end"), [("5", b"1234", True), ("3", b"1234", False)]
)
def test_a_body_of_another_length_is_a_broken_reply(
    length: str, body: bytes, end: bool, shared: SharedLine
) -> None:
    leg, sink = shared.send(), Kept()
    shared.head(1, (":status", "200"), ("content-length", length))
    leg.join(sink)
    shared.says(encode_frame(0, int(end), 1, body))
    assert isinstance(sink.error, ReplyBroken)
    assert shared.resets() in ({1: PROTOCOL_ERROR}, {})
    shared.send()
    shared.answer(3)


def test_more_interim_heads_than_anybody_sends_are_malformed(
    shared: SharedLine,
) -> None:
    leg = shared.send()
    for _ in range(33):
        shared.worker.send_headers(1, [(":status", "103")])
    shared.turn()
    assert isinstance(error_of(leg), ReplyMalformed)


# -- credit --------------------------------------------------------------------------


def window(line: SharedLine, stream_id: int) -> int:
    return line.worker.local_flow_control_window(stream_id)


def test_a_body_nobody_wants_yet_gets_no_credit(shared: SharedLine) -> None:
    leg = shared.send()
    shared.head(1)
    for _ in range(6):
        shared.data(1, b"x" * 10_000)
    assert window(shared, 1) == STREAM_WINDOW_BYTES - 60_000
    leg.join(Kept())
    shared.turn()
    assert window(shared, 1) == FLOWING_WINDOW_BYTES


def test_a_held_leg_gets_no_credit_and_its_neighbour_does(shared: SharedLine) -> None:
    legs = [shared.send(), shared.send()]
    for leg in legs:
        shared.head(leg.stream_id)
        leg.join(Kept())
    shared.turn()
    legs[0].hold(Hold.SINK_FULL)
    for _ in range(20):
        shared.data(1, b"x" * 16_000)
        shared.data(3, b"x" * 16_000)
    assert window(shared, 1) == FLOWING_WINDOW_BYTES - 320_000
    assert window(shared, 3) > FLOWING_WINDOW_BYTES * 3 // 4 - 16_000
    legs[0].release(Hold.SINK_FULL)
    shared.turn()
    assert window(shared, 1) == FLOWING_WINDOW_BYTES


def test_a_body_that_fits_its_window_costs_no_credit(shared: SharedLine) -> None:
    leg = shared.send()
    shared.head(1, (":status", "200"), ("content-length", "20000"))
    shared.data(1, b"x" * 10_000)
    leg.join(Kept())
    shared.turn()
    assert window(shared, 1) == STREAM_WINDOW_BYTES - 10_000


def test_a_worker_that_ignores_a_window_is_cut_off(shared: SharedLine) -> None:
    leg, other = shared.send(), shared.send()
    shared.head(1)
    shared.worker.data_to_send()
    for _ in range(5):
        shared.says(encode_frame(0, 0, 1, b"x" * 16_000))
    assert shared.goodbye == 3
    assert isinstance(error_of(other), ReplyMalformed)
    assert leg.is_ended and shared.pool.counts() == (0, 0)


def test_the_connections_window_is_kept_open_whoever_is_held(
    shared: SharedLine,
) -> None:
    for _ in range(80):
        leg = shared.send()
        shared.head(leg.stream_id)
        shared.data(leg.stream_id, b"x" * 16_000)
        shared.data(leg.stream_id, b"x" * 16_000)
        shared.data(leg.stream_id, b"x" * 16_000)
    least = min(CONNECTION_WINDOW_BYTES, window(shared, shared.send().stream_id))
    assert least == STREAM_WINDOW_BYTES


# -- giving up -----------------------------------------------------------------------


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_aborted_leg_resets_its_stream_and_keeps_the_connection(
    is_begun: bool, shared: SharedLine
) -> None:
    leg, other = shared.send(), shared.send()
    if is_begun:
        shared.head(1)
        shared.data(1, b"x")
    leg.abort(UpstreamError("enough"))
    shared.turn()
    assert shared.resets() == {1: CANCEL}
    shared.answer(3)
    assert other.take_all() == b"ok"
    assert shared.pool.counts() == (1, 0)


def test_what_still_comes_for_an_aborted_leg_is_dropped(shared: SharedLine) -> None:
    leg, other = shared.send(), shared.send()
    shared.worker.send_headers(1, JSON)
    shared.worker.send_data(1, b"x" * 9000, end_stream=True)
    leg.abort(UpstreamError("enough"))
    shared.turn()
    shared.answer(3)
    assert other.take_all() == b"ok"


def test_a_leg_whose_time_is_up_fails_alone(
    shared: SharedLine, clock: FakeClock
) -> None:
    leg, other = shared.send(deadline=clock.now + 5), shared.send()
    shared.connection.sweep(clock.now + 4)
    assert not leg.head.done()
    shared.connection.sweep(clock.now + 5)
    shared.turn()
    assert isinstance(error_of(leg), UpstreamTimeout)
    assert shared.resets() == {1: CANCEL}
    shared.answer(3)
    assert other.take_all() == b"ok"
