"""A worker connection without a socket: what is sent, what comes of each answer."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from smgproxy.core.errors import (
    ReplyBroken,
    ReplyMalformed,
    SendFailed,
    UpstreamError,
    UpstreamTimeout,
)
from smgproxy.core.flow import Hold
from smgproxy.core.turns import LARGE_READ_BYTES
from smgproxy.upstream.http1 import Http1Leg, WorkerConnection
from smgproxy.upstream.pool import WorkerPool
from smgproxy.wire.http1_response import ResponseReader
from tests.upstream.stage import OK, STREAM, FakeLoop, Kept, Line

GIVEN_UP = UpstreamError("given up")


def fault(leg: Http1Leg) -> BaseException | None:
    return leg.head.exception()


def test_a_request_is_one_write(line: Line) -> None:
    line.send(b'{"a":1}')
    assert line.transport.syscalls == [
        b"POST /v1/x HTTP/1.1\r\ncontent-length: 7\r\naccept: */*\r\nhost: w\r\n\r\n"
        b'{"a":1}'
    ]


def test_a_large_request_is_one_write_too(line: Line) -> None:
    line.send(b"x" * 100_000)
    assert len(line.transport.syscalls) == 1


def test_a_whole_answer_gives_the_connection_back(line: Line) -> None:
    leg = line.send()
    line.says(OK)
    assert leg.head.result().status == 200
    assert leg.take_all() == b"ok"
    assert line.state == "idle"


@pytest.mark.parametrize("cut", range(1, len(OK)))
def test_an_answer_may_come_in_two_reads(line: Line, cut: int) -> None:
    leg = line.send()
    line.says(OK[:cut], OK[cut:])
    assert leg.take_all() == b"ok"
    assert line.state == "idle"


def test_each_read_of_a_stream_is_one_delivery(line: Line) -> None:
    leg, sink = line.send(), Kept()
    line.says(STREAM)
    leg.join(sink)
    line.says(b"1\r\na\r\n1\r\nb\r\n", b"1\r\nc\r\n0\r\n\r\n")
    assert sink.pieces == [b"ab", b"c"]
    assert sink.is_ended
    assert line.state == "idle"


def test_an_interim_answer_is_no_answer(line: Line) -> None:
    leg = line.send()
    line.says(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert not leg.head.done()
    line.says(OK)
    assert leg.head.result().status == 200


@pytest.mark.parametrize(
    "answer",
    [
        OK.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"),
        OK.replace(b"1.1", b"1.0"),
        OK + b"more",
        STREAM.replace(b"\r\n\r\n", b"\r\ncontent-length: 2\r\n\r\n")
        + b"2\r\nok\r\n0\r\n\r\n",
        STREAM + b"2\r\nok\r\n0\r\n\r\nmore",
    ],
)
def test_an_answer_that_leaves_doubt_is_passed_on_and_its_connection_dropped(
    line: Line, answer: bytes
) -> None:
    leg = line.send()
    line.says(answer)
    assert leg.take_all() == b"ok"
    assert line.state == "gone"
    assert line.transport.is_closing()


def test_an_answer_before_the_request_was_read_drops_the_connection(
    line: Line,
) -> None:
    line.transport.peer_stalls(10)
    leg = line.send(b"x" * 1000)
    line.says(OK)
    assert leg.take_all() == b"ok"
    assert line.state == "gone"
    assert line.transport.is_closing()


def test_a_body_that_ends_with_its_connection_is_whole(line: Line) -> None:
    leg = line.send()
    line.says(b"HTTP/1.1 200 OK\r\n\r\n", b"ok")
    assert not leg.is_ended
    line.transport.peer_closes()
    assert leg.take_all() == b"ok"
    assert line.state == "gone"


# -- faults --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["peer_closes", "peer_resets"])
@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b"", SendFailed),
        (b"HTTP/1.1 2", ReplyBroken),
        (b"HTTP/1.1 100 Continue\r\n\r\n", ReplyBroken),
    ],
)
def test_a_connection_that_ends_unanswered_may_be_tried_again_if_nothing_came(
    line: Line, how: str, said: bytes, kind: type[UpstreamError]
) -> None:
    leg = line.send()
    if said:
        line.says(said)
    getattr(line.transport, how)()
    line.transport.turn()
    error = fault(leg)
    assert type(error) is kind
    assert error.is_resendable == (kind is SendFailed)
    assert line.state == "gone"


@pytest.mark.parametrize("how", ["peer_closes", "peer_resets"])
@pytest.mark.parametrize(
    "said", [OK[:-1], STREAM, STREAM + b"1\r\na\r\n", STREAM + b"1\r\na\r\n0\r\n"]
)
def test_a_body_that_breaks_off_fails_behind_what_came(
    line: Line, how: str, said: bytes
) -> None:
    leg, sink = line.send(), Kept()
    line.says(said)
    leg.join(sink)
    getattr(line.transport, how)()
    line.transport.turn()
    assert isinstance(sink.error, ReplyBroken)
    assert not sink.error.is_resendable
    assert not sink.is_ended
    assert line.state == "gone"


@pytest.mark.parametrize(
    "said",
    [b"rubbish\r\n\r\n", b"HTTP/1.1 101 Go\r\n\r\n", STREAM + b"zz\r\n"],
)
def test_what_is_no_answer_cuts_the_connection(line: Line, said: bytes) -> None:
    leg, sink = line.send(), Kept()
    line.says(said)
    leg.join(sink)
    assert isinstance(sink.error, ReplyMalformed)
    assert sink.error.status == 502
    assert line.state == "gone"
    assert line.transport.is_closing()


@pytest.mark.parametrize("unasked", [OK, b"x", b"\r\n"])
def test_bytes_to_an_idle_connection_cut_it(line: Line, unasked: bytes) -> None:
    line.send()
    line.says(OK)
    line.says(unasked)
    assert line.state == "gone"
    assert line.transport.is_closing()


@pytest.mark.parametrize("how", ["peer_closes", "peer_resets"])
def test_an_idle_connection_that_ends_leaves_the_pool(line: Line, how: str) -> None:
    line.send()
    line.says(OK)
    getattr(line.transport, how)()
    line.transport.turn()
    assert line.state == "gone"


# -- time ----------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 2", STREAM])
def test_a_leg_whose_time_is_up_fails_and_is_cut(line: Line, said: bytes) -> None:
    leg, sink = line.send(deadline=100.0), Kept()
    if said:
        line.says(said)
    leg.join(sink)
    line.pool.sweep(99.9)
    assert line.state == "busy"
    line.pool.sweep(100.0)
    assert isinstance(sink.error, UpstreamTimeout)
    assert not sink.error.is_resendable
    assert line.state == "gone"
    assert line.transport.is_closing()


def test_a_leg_that_is_over_has_no_deadline(line: Line) -> None:
    line.send(deadline=100.0)
    line.says(OK)
    line.connection.expire(200.0)
    assert line.state == "idle"


# -- holds ---------------------------------------------------------------------------


def test_a_hold_pauses_the_worker_and_the_release_reads_on(line: Line) -> None:
    leg, sink = line.send(), Kept()
    line.says(STREAM)
    leg.join(sink)
    leg.hold(Hold.SINK_FULL)
    line.says(b"1\r\na\r\n")
    assert sink.pieces == []
    leg.release(Hold.SINK_FULL)
    line.transport.turn()
    assert sink.pieces == [b"a"]
    assert line.transport.events == ["pause_reading", "resume_reading"]


def test_a_full_read_lets_others_read_before_the_next(
    line: Line, loop: FakeLoop
) -> None:
    leg = line.send()
    leg.join(Kept())
    line.says(STREAM + b"40000\r\n" + b"x" * LARGE_READ_BYTES)
    assert not line.transport.is_reading()
    loop.turn()
    assert line.transport.is_reading()


def test_a_turn_to_read_does_not_lift_a_hold(line: Line, loop: FakeLoop) -> None:
    leg = line.send()
    leg.join(Kept())
    line.says(STREAM + b"40000\r\n" + b"x" * LARGE_READ_BYTES)
    leg.hold(Hold.SINK_FULL)
    loop.turn()
    assert not line.transport.is_reading()
    leg.release(Hold.SINK_FULL)
    assert line.transport.is_reading()


def test_an_answer_nobody_takes_is_read_a_little_ahead_only(
    line: Line, loop: FakeLoop
) -> None:
    leg = line.send()
    line.says(STREAM, b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
    loop.turn()
    line.says(b"1\r\na\r\n")
    assert line.transport.unread == b"1\r\na\r\n"
    sink = Kept()
    leg.join(sink)
    line.transport.turn()
    assert b"".join(sink.pieces) == b"x" * 0x10000 + b"a"


def test_an_answer_that_ends_while_held_gives_back_a_connection_that_reads(
    line: Line,
) -> None:
    leg, sink = line.send(), Kept()

    class Full(Kept):
        def write(self, data: bytes, end: bool = False) -> None:
            super().write(data, end)
            if not end:
                leg.hold(Hold.SINK_FULL)

    line.says(STREAM)
    sink = Full()
    leg.join(sink)
    line.says(b"1\r\na\r\n")
    leg.release(Hold.SINK_FULL)
    line.says(b"0\r\n\r\n")
    assert sink.is_ended
    assert line.state == "idle"
    assert line.transport.is_reading()


# -- giving up -----------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", STREAM, STREAM + b"1\r\na\r\n"])
def test_an_abort_cuts_the_connection_at_once(line: Line, said: bytes) -> None:
    leg = line.send()
    if said:
        line.says(said)
    leg.abort(GIVEN_UP)
    assert line.state == "gone"
    assert line.transport.events[-1] == "abort"


def test_an_abort_from_inside_a_delivery_is_safe(line: Line) -> None:
    leg = line.send()

    class Fed(Kept):
        def write(self, data: bytes, end: bool = False) -> None:
            super().write(data, end)
            leg.abort(GIVEN_UP)

    sink = Fed()
    line.says(STREAM)
    leg.join(sink)
    line.says(b"1\r\na\r\n0\r\n\r\n")
    line.transport.turn()
    assert len(sink.pieces) == 1


def test_an_abort_behind_the_end_leaves_the_connection_alone(line: Line) -> None:
    leg = line.send()
    line.says(OK)
    leg.abort(GIVEN_UP)
    assert line.state == "idle"


# -- what is left --------------------------------------------------------------------


def close(line: Line) -> None:
    line.transport.peer_closes()


def reset(line: Line) -> None:
    line.transport.peer_resets()


def cut(line: Line) -> None:
    line.connection.cut()


@pytest.mark.parametrize("said", [b"", STREAM + b"1\r\na\r\n", OK])
@pytest.mark.parametrize("end", [close, reset, cut])
def test_a_lost_connection_leaves_no_cycle(
    loop: FakeLoop, said: bytes, end: Callable[[Line], None]
) -> None:
    ours = (WorkerConnection, WorkerPool, Http1Leg, ResponseReader)
    gc.collect()
    # What other tests of this process still hold is none of this one's.
    before = {id(one) for one in gc.get_objects() if isinstance(one, ours)}
    line = Line(loop)
    leg = line.send()
    if said:
        line.says(said)
    sink = Kept()
    leg.join(sink)
    gc.collect()
    gc.disable()
    try:
        end(line)
        line.transport.turn()
        loop.transports.clear()
        del line, leg, sink
        left = [one for one in gc.get_objects() if isinstance(one, ours)]
        assert [one for one in left if id(one) not in before] == []
    finally:
        gc.enable()
