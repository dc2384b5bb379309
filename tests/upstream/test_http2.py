"""A shared connection: legs side by side, and everything a worker may do to them."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from smgproxy.core.errors import (
    BodyAborted,
    ReplyBroken,
    ReplyMalformed,
    SendFailed,
    UploadTimeout,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.flow import Hold, Source
from smgproxy.core.message import ResponseHead
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.http2_leg import Http2Leg
from smgproxy.wire.hpack import PlainEncoder
from smgproxy.wire.http2 import (
    CANCEL,
    CONNECTION_WINDOW_BYTES,
    ENHANCE_YOUR_CALM,
    FLOWING_WINDOW_BYTES,
    NO_ERROR,
    PING,
    PROTOCOL_ERROR,
    STREAM_WINDOW_BYTES,
    goaway,
)
from smgproxy.wire.http2_frames import encode_frame
from tests.fakes.clock import FakeClock
from tests.upstream.http2_stage import JSON, SharedLine
from tests.upstream.stage import FakeLoop, Kept, ask

PINGS = encode_frame(PING, 0, 0, bytes(8))


@pytest.fixture
def line(loop: FakeLoop, clock: FakeClock) -> Iterator[SharedLine]:
    made = SharedLine(loop)
    yield made
    made.pool.cut_all()
    made.transport.turn()


def head_of(leg: Http2Leg) -> ResponseHead:
    assert leg.head.done()
    return leg.head.result()


def error_of(leg: Http2Leg) -> BaseException:
    error = leg.head.exception()
    assert error is not None
    return error


# -- answers -------------------------------------------------------------------------


def test_answers_come_in_any_order(line: SharedLine) -> None:
    one, other = line.send(), line.send()
    assert line.requests() == line.ended() == [1, 3]
    line.answer(3, b"second")
    line.answer(1, b"first")
    assert (one.take_all(), other.take_all()) == (b"first", b"second")
    assert line.pool.counts() == (1, 0)


def test_requests_of_one_turn_leave_in_one_write(line: SharedLine) -> None:
    line.turn()
    writes = len(line.transport.syscalls)
    for _ in range(5):
        line.connection.send(ask(), b"w", 1e12)
    line.turn()
    assert len(line.transport.syscalls) == writes + 1
    assert len(line.requests()) == 5


def test_one_read_is_one_delivery_to_each_leg(line: SharedLine) -> None:
    legs = [line.send(), line.send()]
    sinks = [Kept(), Kept()]
    for leg, sink in zip(legs, sinks):
        line.worker.send_headers(leg.stream_id, JSON)
        leg.join(sink)
    line.turn()
    for piece in (b"a", b"b", b"c"):
        line.worker.send_data(1, piece)
        line.worker.send_data(3, piece * 2)
    line.turn()
    assert [sink.pieces for sink in sinks] == [[b"abc"], [b"aabbcc"]]


def test_interim_heads_and_empty_data_are_skipped_and_trailers_dropped(
    line: SharedLine,
) -> None:
    leg, sink = line.send(), Kept()
    line.worker.send_headers(1, [(":status", "103"), ("link", "x")])
    line.head(1)
    leg.join(sink)
    line.data(1, b"")
    line.data(1, b"body")
    line.worker.send_headers(1, [("x-trailer", "t")], end_stream=True)
    line.turn()
    assert head_of(leg).status == 200
    assert sink.pieces == [b"body", b""] and sink.is_ended


@pytest.mark.parametrize("status", ["204", "304"])
def test_an_answer_without_a_body_may_have_a_length(
    status: str, line: SharedLine
) -> None:
    leg = line.send()
    line.head(1, (":status", status), ("content-length", "9"), end=True)
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
    fields: list[tuple[bytes, bytes]], line: SharedLine
) -> None:
    leg, other = line.send(), line.send()
    line.worker.data_to_send()
    line.says(encode_frame(1, 0x4, 1, PlainEncoder().encode(fields)))
    error = error_of(leg)
    assert isinstance(error, ReplyMalformed) and error.status == 502
    assert line.resets() == {1: PROTOCOL_ERROR}
    line.answer(3)
    assert other.take_all() == b"ok"


def test_a_second_head_is_malformed(line: SharedLine) -> None:
    leg, sink = line.send(), Kept()
    line.head(1)
    leg.join(sink)
    block = PlainEncoder().encode([(b"x", b"y")])
    line.says(encode_frame(1, 0x4, 1, block))
    assert isinstance(sink.error, ReplyMalformed)


def test_a_body_before_its_head_is_malformed(line: SharedLine) -> None:
    leg = line.send()
    line.says(encode_frame(0, 0, 1, b"body"))
    assert isinstance(error_of(leg), ReplyMalformed)


@pytest.mark.parametrize(
    ("length", "body", "end"), [("5", b"1234", True), ("3", b"1234", False)]
)
def test_a_body_of_another_length_is_a_broken_reply(
    length: str, body: bytes, end: bool, line: SharedLine
) -> None:
    leg, sink = line.send(), Kept()
    line.head(1, (":status", "200"), ("content-length", length))
    leg.join(sink)
    line.says(encode_frame(0, int(end), 1, body))
    assert isinstance(sink.error, ReplyBroken)
    assert line.resets() in ({1: PROTOCOL_ERROR}, {})
    line.send()
    line.answer(3)


def test_more_interim_heads_than_anybody_sends_are_malformed(line: SharedLine) -> None:
    leg = line.send()
    for _ in range(33):
        line.worker.send_headers(1, [(":status", "103")])
    line.turn()
    assert isinstance(error_of(leg), ReplyMalformed)


# -- credit --------------------------------------------------------------------------


def window(line: SharedLine, stream_id: int) -> int:
    return line.worker.local_flow_control_window(stream_id)


def test_a_body_nobody_wants_yet_gets_no_credit(line: SharedLine) -> None:
    leg = line.send()
    line.head(1)
    for _ in range(6):
        line.data(1, b"x" * 10_000)
    assert window(line, 1) == STREAM_WINDOW_BYTES - 60_000
    leg.join(Kept())
    line.turn()
    assert window(line, 1) == FLOWING_WINDOW_BYTES


def test_a_held_leg_gets_no_credit_and_its_neighbour_does(line: SharedLine) -> None:
    legs = [line.send(), line.send()]
    for leg in legs:
        line.head(leg.stream_id)
        leg.join(Kept())
    line.turn()
    legs[0].hold(Hold.SINK_FULL)
    for _ in range(20):
        line.data(1, b"x" * 16_000)
        line.data(3, b"x" * 16_000)
    assert window(line, 1) == FLOWING_WINDOW_BYTES - 320_000
    assert window(line, 3) > FLOWING_WINDOW_BYTES * 3 // 4 - 16_000
    legs[0].release(Hold.SINK_FULL)
    line.turn()
    assert window(line, 1) == FLOWING_WINDOW_BYTES


def test_a_body_that_fits_its_window_costs_no_credit(line: SharedLine) -> None:
    leg = line.send()
    line.head(1, (":status", "200"), ("content-length", "20000"))
    line.data(1, b"x" * 10_000)
    leg.join(Kept())
    line.turn()
    assert window(line, 1) == STREAM_WINDOW_BYTES - 10_000


def test_a_worker_that_ignores_a_window_is_cut_off(line: SharedLine) -> None:
    leg, other = line.send(), line.send()
    line.head(1)
    line.worker.data_to_send()
    for _ in range(5):
        line.says(encode_frame(0, 0, 1, b"x" * 16_000))
    assert line.goodbye == 3
    assert isinstance(error_of(other), ReplyMalformed)
    assert leg.is_ended and line.pool.counts() == (0, 0)


def test_the_connections_window_is_kept_open_whoever_is_held(line: SharedLine) -> None:
    for _ in range(80):
        leg = line.send()
        line.head(leg.stream_id)
        line.data(leg.stream_id, b"x" * 16_000)
        line.data(leg.stream_id, b"x" * 16_000)
        line.data(leg.stream_id, b"x" * 16_000)
    least = min(CONNECTION_WINDOW_BYTES, window(line, line.send().stream_id))
    assert least == STREAM_WINDOW_BYTES


# -- giving up -----------------------------------------------------------------------


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_aborted_leg_resets_its_stream_and_keeps_the_connection(
    is_begun: bool, line: SharedLine
) -> None:
    leg, other = line.send(), line.send()
    if is_begun:
        line.head(1)
        line.data(1, b"x")
    leg.abort(UpstreamError("enough"))
    line.turn()
    assert line.resets() == {1: CANCEL}
    line.answer(3)
    assert other.take_all() == b"ok"
    assert line.pool.counts() == (1, 0)


def test_what_still_comes_for_an_aborted_leg_is_dropped(line: SharedLine) -> None:
    leg, other = line.send(), line.send()
    line.worker.send_headers(1, JSON)
    line.worker.send_data(1, b"x" * 9000, end_stream=True)
    leg.abort(UpstreamError("enough"))
    line.turn()
    line.answer(3)
    assert other.take_all() == b"ok"


def test_a_leg_whose_time_is_up_fails_alone(line: SharedLine, clock: FakeClock) -> None:
    leg, other = line.send(deadline=clock.now + 5), line.send()
    line.connection.sweep(clock.now + 4)
    assert not leg.head.done()
    line.connection.sweep(clock.now + 5)
    line.turn()
    assert isinstance(error_of(leg), UpstreamTimeout)
    assert line.resets() == {1: CANCEL}
    line.answer(3)
    assert other.take_all() == b"ok"


# -- losing the worker ---------------------------------------------------------------


def test_a_stream_reset_before_its_head_may_be_sent_again(line: SharedLine) -> None:
    leg = line.send()
    line.worker.reset_stream(1, 7)
    line.turn()
    error = error_of(leg)
    assert isinstance(error, SendFailed) and error.is_resendable


def test_a_stream_reset_midway_is_broken_behind_what_came(line: SharedLine) -> None:
    leg, sink = line.send(), Kept()
    line.worker.send_headers(1, JSON)
    line.worker.send_data(1, b"some")
    line.worker.reset_stream(1, 2)
    leg.join(sink)
    line.turn()
    assert sink.pieces == [b"some"]
    assert isinstance(sink.error, ReplyBroken)
    assert sink.error.cause == "stream reset, code 2"


def test_goaway_fails_the_streams_above_and_lets_the_others_end(
    line: SharedLine,
) -> None:
    one, other = line.send(), line.send()
    line.says(goaway(1, NO_ERROR))
    assert isinstance(error_of(other), SendFailed)
    assert not line.connection.has_room
    assert line.pool.take() is None
    line.answer(1)
    assert one.take_all() == b"ok"
    assert line.transport.is_closing()
    assert line.pool.counts() == (0, 0)


@pytest.mark.parametrize("how", ["eof", "reset"])
def test_a_lost_connection_fails_every_leg(how: str, line: SharedLine) -> None:
    legs = [line.send() for _ in range(3)]
    sink = Kept()
    line.head(1)
    legs[0].join(sink)
    if how == "eof":
        line.transport.peer_closes()
        line.transport.turn()
    else:
        line.transport.peer_resets()
    assert isinstance(sink.error, ReplyBroken)
    assert isinstance(error_of(legs[1]), SendFailed)
    assert isinstance(error_of(legs[2]), SendFailed)
    assert line.pool.counts() == (0, 0)


def test_a_lost_connection_is_freed_at_once(loop: FakeLoop, clock: FakeClock) -> None:
    line = SharedLine(loop)
    line.send()
    line.transport.peer_resets()
    loop.transports.clear()
    gc.collect()
    gc.disable()
    try:
        del line
        assert not [one for one in gc.get_objects() if type(one) is SharedConnection]
    finally:
        gc.enable()


def test_an_answer_that_is_no_http2_is_malformed(line: SharedLine) -> None:
    leg = line.send()
    line.worker.data_to_send()
    line.transport.peer_sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    line.loop.turn()
    assert isinstance(error_of(leg), ReplyMalformed)
    assert line.transport.is_closing()


def test_a_silent_worker_is_asked_and_one_that_stays_silent_is_lost(
    line: SharedLine, clock: FakeClock
) -> None:
    leg = line.send()
    clock.advance(29.9)
    line.connection.sweep(clock.now)
    line.loop.turn()
    assert line.transport.take_sent() == b""
    clock.advance(0.1)
    line.connection.sweep(clock.now)
    line.loop.turn()
    assert line.transport.take_sent()[3] == PING
    clock.advance(19.9)
    line.connection.sweep(clock.now)
    assert not leg.head.done()
    clock.advance(0.1)
    line.connection.sweep(clock.now)
    error = error_of(leg)
    assert isinstance(error, SendFailed) and error.cause == "keep-alive timed out"
    assert line.transport.is_closing()


def test_a_worker_that_answers_its_ping_lives_on(
    line: SharedLine, clock: FakeClock
) -> None:
    leg = line.send()
    for _ in range(5):
        clock.advance(30)
        line.connection.sweep(clock.now)
        line.turn()
    line.answer(1)
    assert leg.take_all() == b"ok"


def test_a_flood_of_frames_that_say_nothing_is_cut_off(line: SharedLine) -> None:
    leg = line.send()
    line.says(PINGS * 20_000)
    assert line.goodbye == ENHANCE_YOUR_CALM
    assert isinstance(error_of(leg), ReplyMalformed)


def test_a_worker_that_reads_no_answers_is_cut_off(line: SharedLine) -> None:
    line.send()
    line.transport.peer_stalls()
    for _ in range(20):
        for _ in range(9):
            line.transport.peer_sends(PINGS * 1000)
            line.loop.turn()
            if line.transport.is_closing():
                return
        line.connection._reader._allowance._left = 10_000  # noqa: SLF001
    pytest.fail("still there")


def test_a_head_beyond_the_bound_is_cut_off(line: SharedLine) -> None:
    leg = line.send()
    line.worker.data_to_send()
    fields = [(b":status", b"200"), (b"a", b"x" * 16_000)]
    block = PlainEncoder().encode(fields)
    line.says(encode_frame(1, 0, 1, block[:16_000]))
    for _ in range(17):
        line.says(encode_frame(9, 0, 1, b"x" * 16_000))
        if line.transport.is_closing():
            break
    assert line.goodbye == ENHANCE_YOUR_CALM
    assert isinstance(error_of(leg), ReplyMalformed)


# -- room ----------------------------------------------------------------------------


def test_there_is_room_for_as_many_streams_as_the_worker_says(
    loop: FakeLoop, clock: FakeClock
) -> None:
    line = SharedLine(loop, {3: 2})
    line.send()
    assert line.connection.has_room
    line.send()
    assert not line.connection.has_room
    line.answer(1)
    assert line.connection.has_room
    line.pool.cut_all()
    line.transport.turn()


def test_a_refused_stream_means_no_more_room_than_that(line: SharedLine) -> None:
    for _ in range(4):
        line.send()
    line.worker.reset_stream(7, 7)
    line.turn()
    assert not line.connection.has_room
    line.answer(1)
    assert line.connection.has_room


def test_an_idle_connection_expires_with_a_goodbye(
    line: SharedLine, clock: FakeClock
) -> None:
    line.send()
    line.answer(1)
    clock.advance(2.9)
    line.pool.sweep(clock.now)
    assert not line.transport.is_closing()
    clock.advance(0.1)
    line.pool.sweep(clock.now)
    assert line.transport.is_closing()
    assert (line.goodbye, line.pool.counts()) == (NO_ERROR, (0, 0))


def test_an_idle_timeout_of_0_keeps_for_ever(loop: FakeLoop, clock: FakeClock) -> None:
    line = SharedLine(loop, pool_idle_timeout_secs=0)
    for _ in range(100):
        clock.advance(25)
        line.pool.sweep(clock.now)
        line.turn()
    assert line.pool.counts() == (1, 0)
    line.pool.cut_all()
    line.transport.turn()


def test_a_retired_connection_ends_behind_its_legs(line: SharedLine) -> None:
    leg = line.send()
    line.pool.close()
    assert not line.transport.is_closing()
    line.answer(1)
    assert leg.take_all() == b"ok"
    assert line.transport.is_closing()


# -- requests ------------------------------------------------------------------------


class Feed(Source):
    """A client's body; what is asked of it is in ``log``."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def on_pause(self) -> None:
        self.log.append("pause")

    def on_resume(self) -> None:
        self.log.append("resume")

    def on_abort(self, error: Exception) -> None:
        self.log.append("abort")


def feed(line: SharedLine, leg: Http2Leg) -> Feed:
    source = Feed()
    assert leg.request is not None
    source.join(leg.request)
    return source


def test_a_body_beyond_the_windows_waits_and_arrives_in_order(
    line: SharedLine,
) -> None:
    body = bytes(range(256)) * 1000
    leg = line.send(body)
    while len(line.bodies()[1]) < len(body):
        before = len(line.bodies()[1])
        line.worker.increment_flow_control_window(10_000)
        line.worker.increment_flow_control_window(10_000, 1)
        line.turn()
        assert len(line.bodies()[1]) - before <= 10_000
    assert line.bodies()[1] == body
    assert line.ended() == [1]
    line.answer(1)
    assert leg.take_all() == b"ok"


def test_tiny_windows_set_by_the_worker_count_at_once(
    loop: FakeLoop, clock: FakeClock
) -> None:
    line = SharedLine(loop, {4: 10})
    line.turn()
    line.send(b"0123456789abcdef")
    assert line.bodies()[1] == b"0123456789"
    line.worker.increment_flow_control_window(6, 1)
    line.turn()
    assert line.bodies()[1] == b"0123456789abcdef"
    line.pool.cut_all()
    line.transport.turn()


def test_an_upload_is_held_by_its_window_and_goes_on(line: SharedLine) -> None:
    leg = line.upload()
    source = feed(line, leg)
    source.deliver(b"x" * 70_000)
    line.turn()
    assert source.log == ["pause"]
    assert len(line.bodies()[1]) == 65_535
    line.worker.increment_flow_control_window(100_000)
    line.worker.increment_flow_control_window(100_000, 1)
    line.turn()
    assert source.log == ["pause", "resume"]
    source.deliver(b"y", True)
    line.turn()
    assert line.bodies()[1] == b"x" * 70_000 + b"y"
    assert line.ended() == [1]


def test_an_upload_that_breaks_off_resets_its_stream(line: SharedLine) -> None:
    leg = line.upload()
    source = feed(line, leg)
    source.deliver(b"x")
    error = BodyAborted()
    source.fail(error)
    line.turn()
    assert error_of(leg) is error
    assert line.resets() == {1: CANCEL}
    assert not line.ended()
    assert line.pool.counts() == (1, 0)


def test_an_early_answer_stops_the_upload_and_keeps_the_connection(
    line: SharedLine,
) -> None:
    leg = line.upload()
    source = feed(line, leg)
    source.deliver(b"x")
    line.turn()
    line.answer(1, b"no")
    assert leg.take_all() == b"no"
    assert source.log == ["abort"]
    assert line.resets() == {1: CANCEL}
    assert line.pool.counts() == (1, 0)


def test_a_worker_that_reads_nothing_holds_every_upload(line: SharedLine) -> None:
    line.worker.increment_flow_control_window(1 << 20)
    sources = []
    for _ in range(2):
        leg = line.upload()
        sources.append(feed(line, leg))
        line.worker.increment_flow_control_window(1 << 20, leg.stream_id)
        line.turn()
    line.transport.peer_stalls()
    sources[0].deliver(b"x" * 100_000)
    line.loop.turn()
    assert [each.log for each in sources] == [["pause"], ["pause"]]
    line.transport.peer_reads()
    line.turn()
    assert [each.log for each in sources] == [["pause", "resume"]] * 2


def test_a_starved_upload_that_times_out_is_its_clients_fault(
    line: SharedLine, clock: FakeClock
) -> None:
    leg = line.connection.upload(ask(), b"w", clock.now + 1)
    feed(line, leg)
    line.connection.sweep(clock.now + 1)
    assert isinstance(error_of(leg), UploadTimeout)
