"""A shared connection that its worker ends or spoils, and the room on it."""

from __future__ import annotations

import gc

import pytest

from smgproxy.core.errors import ReplyBroken, ReplyMalformed, SendFailed
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.http2_leg import Http2Leg
from smgproxy.wire.hpack import PlainEncoder
from smgproxy.wire.http2 import ENHANCE_YOUR_CALM, NO_ERROR, PING, goaway
from smgproxy.wire.http2_frames import encode_frame
from tests.fakes.clock import FakeClock
from tests.upstream.http2_stage import JSON, SharedLine
from tests.upstream.stage import FakeLoop, Kept

PINGS = encode_frame(PING, 0, 0, bytes(8))


def error_of(leg: Http2Leg) -> BaseException:
    error = leg.head.exception()
    assert error is not None
    return error


# -- losing the worker ---------------------------------------------------------------


def test_a_stream_reset_before_its_head_may_be_sent_again(shared: SharedLine) -> None:
    leg = shared.send()
    shared.worker.reset_stream(1, 7)
    shared.turn()
    error = error_of(leg)
    assert isinstance(error, SendFailed) and error.is_resendable


def test_a_stream_reset_midway_is_broken_behind_what_came(shared: SharedLine) -> None:
    leg, sink = shared.send(), Kept()
    shared.worker.send_headers(1, JSON)
    shared.worker.send_data(1, b"some")
    shared.worker.reset_stream(1, 2)
    leg.join(sink)
    shared.turn()
    assert sink.pieces == [b"some"]
    assert isinstance(sink.error, ReplyBroken)
    assert sink.error.cause == "stream reset, code 2"


def test_goaway_fails_the_streams_above_and_lets_the_others_end(
    shared: SharedLine,
) -> None:
    one, other = shared.send(), shared.send()
    shared.says(goaway(1, NO_ERROR))
    assert isinstance(error_of(other), SendFailed)
    assert not shared.connection.has_room
    assert shared.pool.take() is None
    shared.answer(1)
    assert one.take_all() == b"ok"
    assert shared.transport.is_closing()
    assert shared.pool.counts() == (0, 0)


@pytest.mark.parametrize("how", ["eof", "reset"])
def test_a_lost_connection_fails_every_leg(how: str, shared: SharedLine) -> None:
    legs = [shared.send() for _ in range(3)]
    sink = Kept()
    shared.head(1)
    legs[0].join(sink)
    if how == "eof":
        shared.transport.peer_closes()
        shared.transport.turn()
    else:
        shared.transport.peer_resets()
    assert isinstance(sink.error, ReplyBroken)
    assert isinstance(error_of(legs[1]), SendFailed)
    assert isinstance(error_of(legs[2]), SendFailed)
    assert shared.pool.counts() == (0, 0)


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


def test_an_answer_that_is_no_http2_is_malformed(shared: SharedLine) -> None:
    leg = shared.send()
    shared.worker.data_to_send()
    shared.transport.peer_sends(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    shared.loop.turn()
    assert isinstance(error_of(leg), ReplyMalformed)
    assert shared.transport.is_closing()


def test_a_silent_worker_is_asked_and_one_that_stays_silent_is_lost(
    shared: SharedLine, clock: FakeClock
) -> None:
    leg = shared.send()
    clock.advance(29.9)
    shared.connection.sweep(clock.now)
    shared.loop.turn()
    assert shared.transport.take_sent() == b""
    clock.advance(0.1)
    shared.connection.sweep(clock.now)
    shared.loop.turn()
    assert shared.transport.take_sent()[3] == PING
    clock.advance(19.9)
    shared.connection.sweep(clock.now)
    assert not leg.head.done()
    clock.advance(0.1)
    shared.connection.sweep(clock.now)
    error = error_of(leg)
    assert isinstance(error, SendFailed) and error.cause == "keep-alive timed out"
    assert shared.transport.is_closing()


def test_a_worker_that_answers_its_ping_lives_on(
    shared: SharedLine, clock: FakeClock
) -> None:
    leg = shared.send()
    for _ in range(5):
        clock.advance(30)
        shared.connection.sweep(clock.now)
        shared.turn()
    shared.answer(1)
    assert leg.take_all() == b"ok"


def test_a_flood_of_frames_that_say_nothing_is_cut_off(shared: SharedLine) -> None:
    leg = shared.send()
    shared.says(PINGS * 20_000)
    assert shared.goodbye == ENHANCE_YOUR_CALM
    assert isinstance(error_of(leg), ReplyMalformed)


def test_a_worker_that_reads_no_answers_is_cut_off(shared: SharedLine) -> None:
    shared.send()
    shared.transport.peer_stalls()
    for _ in range(20):
        for _ in range(9):
            shared.transport.peer_sends(PINGS * 1000)
            shared.loop.turn()
            if shared.transport.is_closing():
                return
        shared.connection._reader._allowance._left = 10_000  # noqa: SLF001
    pytest.fail("still there")


def test_a_head_beyond_the_bound_is_cut_off(shared: SharedLine) -> None:
    leg = shared.send()
    shared.worker.data_to_send()
    fields = [(b":status", b"200"), (b"a", b"x" * 16_000)]
    block = PlainEncoder().encode(fields)
    shared.says(encode_frame(1, 0, 1, block[:16_000]))
    for _ in range(17):
        shared.says(encode_frame(9, 0, 1, b"x" * 16_000))
        if shared.transport.is_closing():
            break
    assert shared.goodbye == ENHANCE_YOUR_CALM
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


def test_a_refused_stream_means_no_more_room_than_that(shared: SharedLine) -> None:
    for _ in range(4):
        shared.send()
    shared.worker.reset_stream(7, 7)
    shared.turn()
    assert not shared.connection.has_room
    shared.answer(1)
    assert shared.connection.has_room


def test_an_idle_connection_expires_with_a_goodbye(
    shared: SharedLine, clock: FakeClock
) -> None:
    shared.send()
    shared.answer(1)
    clock.advance(2.9)
    shared.pool.sweep(clock.now)
    assert not shared.transport.is_closing()
    clock.advance(0.1)
    shared.pool.sweep(clock.now)
    assert shared.transport.is_closing()
    assert (shared.goodbye, shared.pool.counts()) == (NO_ERROR, (0, 0))


def test_an_idle_timeout_of_0_keeps_for_ever(loop: FakeLoop, clock: FakeClock) -> None:
    line = SharedLine(loop, pool_idle_timeout_secs=0)
    for _ in range(100):
        clock.advance(25)
        line.pool.sweep(clock.now)
        line.turn()
    assert line.pool.counts() == (1, 0)
    line.pool.cut_all()
    line.transport.turn()


def test_a_retired_connection_ends_behind_its_legs(shared: SharedLine) -> None:
    leg = shared.send()
    shared.pool.close()
    assert not shared.transport.is_closing()
    shared.answer(1)
    assert leg.take_all() == b"ok"
    assert shared.transport.is_closing()
