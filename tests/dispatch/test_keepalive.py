"""Keep-alive frames: between events, after silence, and never in anybody's way."""

from __future__ import annotations

import pytest

from smgproxy.core.clock import Sweeper
from smgproxy.core.flow import Hold
from smgproxy.dispatch.keepalive import KeepAlives, LiveStream
from smgproxy.wire.sse import ANTHROPIC_PING, PING
from tests.core.scripted import ScriptedSink, ScriptedSource
from tests.fakes.clock import FakeClock

EVENT = b"data: {}\n\n"
SILENCE = 15.0


class Streams:
    """Live streams swept by a clock that the test winds."""

    def __init__(self, patch: pytest.MonkeyPatch, silence: float = SILENCE) -> None:
        self.clock = FakeClock()
        self.clock.stand_in(patch, "smgproxy.core.clock")
        self.keepalives = KeepAlives(silence)
        Sweeper(self.clock.call_later, 0.25, self.keepalives.sweep)

    def open(self, is_anthropic: bool = False) -> LiveStream:
        """Join a source to a sink and watch them."""
        source, sink = ScriptedSource(), ScriptedSink()
        source.join(sink)
        stream = LiveStream(source, sink, is_anthropic, self.clock.now)
        self.keepalives.watch(stream)
        return stream


@pytest.fixture
def streams(monkeypatch: pytest.MonkeyPatch) -> Streams:
    return Streams(monkeypatch)


def said(stream: LiveStream) -> list[bytes]:
    assert isinstance(stream.sink, ScriptedSink)
    return stream.sink.pieces


def test_nothing_is_sent_before_the_silence_is_long_enough(streams: Streams) -> None:
    stream = streams.open()
    streams.clock.advance(SILENCE - 0.5)
    assert said(stream) == []
    streams.clock.advance(1.0)
    assert said(stream) == [PING]


def test_a_frame_is_sent_again_each_time_it_is_silent_that_long(
    streams: Streams,
) -> None:
    stream = streams.open()
    streams.clock.advance(3 * SILENCE + 2.0)
    assert said(stream) == [PING] * 3


def test_an_event_starts_the_silence_anew(streams: Streams) -> None:
    stream = streams.open()
    for _ in range(5):
        streams.clock.advance(SILENCE - 1.0)
        stream.source.deliver(EVENT, False)
    assert said(stream) == [EVENT] * 5


def test_the_anthropic_dialect_has_a_ping_event(streams: Streams) -> None:
    stream = streams.open(is_anthropic=True)
    streams.clock.advance(SILENCE + 0.5)
    assert said(stream) == [ANTHROPIC_PING]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
def test_a_frame_stands_behind_a_whole_event(streams: Streams, end: bytes) -> None:
    stream = streams.open()
    stream.source.deliver(b"data: x" + end, False)
    streams.clock.advance(SILENCE + 1.0)
    assert said(stream)[-1] == PING


@pytest.mark.parametrize("part", [b"data: x", b"data: x\n", b"data: x\r\n", b"\n"])
def test_a_frame_never_stands_inside_an_event(streams: Streams, part: bytes) -> None:
    stream = streams.open()
    stream.source.deliver(part, False)
    streams.clock.advance(3 * SILENCE)
    assert said(stream) == [part]


def test_the_end_of_an_event_is_seen_across_reads(streams: Streams) -> None:
    stream = streams.open()
    for piece in (b"data: x\r", b"\n", b"\r", b"\n"):
        stream.source.deliver(piece, False)
    streams.clock.advance(SILENCE + 1.0)
    assert said(stream)[-1] == PING


def test_a_client_that_reads_nothing_is_sent_nothing(streams: Streams) -> None:
    stream = streams.open()
    stream.source.hold(Hold.SINK_FULL)
    streams.clock.advance(3 * SILENCE)
    assert said(stream) == []
    stream.source.release(Hold.SINK_FULL)
    streams.clock.advance(SILENCE + 0.5)
    assert said(stream) == [PING]


def test_a_stream_that_ended_is_sent_nothing(streams: Streams) -> None:
    stream = streams.open()
    stream.source.deliver(EVENT, True)
    streams.clock.advance(3 * SILENCE)
    assert said(stream) == [EVENT]


def test_a_forgotten_stream_is_left_alone(streams: Streams) -> None:
    stream = streams.open()
    streams.keepalives.forget(stream)
    streams.keepalives.forget(stream)
    streams.clock.advance(3 * SILENCE)
    assert (said(stream), len(streams.keepalives)) == ([], 0)


def test_no_silence_means_off(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(monkeypatch, silence=0)
    stream = streams.open()
    streams.clock.advance(1000.0)
    assert (said(stream), len(streams.keepalives)) == ([], 0)
