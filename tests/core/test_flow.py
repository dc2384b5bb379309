"""Source, Sink and collect: order, pauses, ends."""

from __future__ import annotations

import asyncio
import gc

import pytest

from smgproxy.core.flow import BACKLOG_BYTES, Hold, Sink, Source, collect
from tests.core.scripted import ScriptedSink, ScriptedSource

BROKEN = OSError("broken")


def _too_large() -> Exception:
    return ValueError("too large")


def test_join_delivers_what_has_gathered(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.deliver(b"a")
    source.deliver(b"b", True)
    source.join(sink)
    assert sink.pieces == [b"a", b"b"]
    assert sink.is_ended
    assert source.wanted == 1


def test_deliver_passes_on_at_once(source: ScriptedSource, sink: ScriptedSink) -> None:
    source.join(sink)
    source.deliver(b"a")
    assert sink.pieces == [b"a"]
    assert not sink.is_ended


def test_hold_pauses_and_keeps_what_still_comes(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.deliver(b"a")
    assert source.is_paused
    assert source.is_held
    assert sink.pieces == []


def test_release_delivers_backlog_before_reading_on(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.deliver(b"a")
    sink.reaction = lambda: source.asked.append("write")
    source.release(Hold.SINK_FULL)
    assert source.asked == ["pause", "write", "resume"]


def test_every_reason_must_be_lifted(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.hold(Hold.PIPELINED)
    source.release(Hold.SINK_FULL)
    assert source.is_paused
    source.release(Hold.PIPELINED)
    assert source.asked == ["pause", "resume"]


def test_releasing_twice_changes_nothing(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.release(Hold.SINK_FULL)
    source.release(Hold.SINK_FULL)
    assert source.asked == ["pause", "resume"]


def test_a_sink_that_fills_up_again_gets_no_more(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    for piece in (b"a", b"b", b"c"):
        source.deliver(piece)
    sink.reaction = lambda: source.hold(Hold.SINK_FULL)
    source.release(Hold.SINK_FULL)
    assert sink.pieces == [b"a"]
    assert source.asked == ["pause"]


def test_a_sink_that_empties_inside_its_write_keeps_the_order(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    def fill_and_empty() -> None:
        source.hold(Hold.SINK_FULL)
        source.release(Hold.SINK_FULL)

    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.deliver(b"a")
    source.deliver(b"b", True)
    sink.reaction = fill_and_empty
    source.release(Hold.SINK_FULL)
    assert sink.pieces == [b"a", b"b"]
    assert not source.is_paused


def test_bytes_that_come_during_a_drain_go_behind_it(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    more = [b"c"]

    def deliver_more() -> None:
        if more:
            source.deliver(more.pop())

    source.deliver(b"a")
    source.deliver(b"b")
    sink.reaction = deliver_more
    source.join(sink)
    assert sink.pieces == [b"a", b"b", b"c"]


def test_without_a_sink_a_small_body_does_not_pause(source: ScriptedSource) -> None:
    source.deliver(b"a" * (BACKLOG_BYTES - 1))
    assert source.asked == []
    source.deliver(b"a")
    assert source.asked == ["pause"]


def test_join_resumes_a_paused_transport(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.deliver(b"a" * BACKLOG_BYTES)
    source.join(sink)
    assert source.asked == ["pause", "resume"]


def test_without_a_sink_lifting_another_hold_reads_on(source: ScriptedSource) -> None:
    source.hold(Hold.PIPELINED)
    source.release(Hold.PIPELINED)
    assert source.asked == ["pause", "resume"]


def test_fail_comes_behind_the_backlog(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.deliver(b"a")
    source.fail(BROKEN)
    source.join(sink)
    assert sink.pieces == [b"a"]
    assert sink.errors == [BROKEN]


def test_fail_waits_while_held(source: ScriptedSource, sink: ScriptedSink) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.fail(BROKEN)
    assert sink.errors == []
    source.release(Hold.SINK_FULL)
    assert sink.errors == [BROKEN]


def test_fail_behind_the_end_is_nothing(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.deliver(b"a", True)
    source.fail(BROKEN)
    assert sink.errors == []


def test_abort_stops_the_producer_and_drops_the_backlog(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.deliver(b"a")
    sink.is_quiet = True
    source.abort(BROKEN)
    source.deliver(b"b")
    source.fail(OSError("later"))
    source.release(Hold.SINK_FULL)
    assert source.aborted_with == [BROKEN]
    assert sink.pieces == []
    assert sink.source is None


def test_abort_inside_a_drain_ends_it(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.deliver(b"a")
    source.deliver(b"b")
    sink.reaction = lambda: source.abort(BROKEN)
    source.join(sink)
    assert sink.pieces == [b"a"]
    assert sink.errors == []


def test_abort_of_a_whole_body_reads_on(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.join(sink)
    source.hold(Hold.SINK_FULL)
    source.deliver(b"a", True)
    source.abort(BROKEN)
    assert source.aborted_with == []
    assert source.asked == ["pause", "resume"]


def test_who_joins_an_aborted_source_is_told(
    source: ScriptedSource, sink: ScriptedSink
) -> None:
    source.deliver(b"a")
    source.abort(BROKEN)
    source.join(sink)
    assert sink.pieces == []
    assert sink.errors == [BROKEN]


def test_take_all_gives_a_whole_body_once(source: ScriptedSource) -> None:
    assert source.take_all() is None
    source.deliver(b"a")
    assert source.take_all() is None
    source.deliver(b"b", True)
    assert source.take_all() == b"ab"
    assert source.take_all() == b""


def test_take_all_reads_on(source: ScriptedSource) -> None:
    source.deliver(b"a" * BACKLOG_BYTES)
    source.deliver(b"b", True)
    assert source.take_all() is not None
    assert source.asked == ["pause", "resume"]


@pytest.mark.parametrize("ending", ["fail", "abort"])
def test_take_all_gives_nothing_of_a_broken_body(
    source: ScriptedSource, ending: str
) -> None:
    source.deliver(b"a")
    getattr(source, ending)(BROKEN)
    assert source.take_all() is None


def test_delivered_and_tail_count_what_came_in(source: Source) -> None:
    for piece in (b"abcdef", b"g", b"", b"h"):
        source.deliver(piece)
    assert source.delivered == 8
    assert source.tail.endswith(b"efgh")


def test_a_plain_sink_must_be_completed() -> None:
    with pytest.raises(NotImplementedError):
        Sink().write(b"")


def test_collect_takes_what_is_there_without_joining() -> None:
    source = ScriptedSource()
    source.deliver(b"ab", True)
    assert asyncio.run(collect(source, 2, _too_large)) == b"ab"
    assert source.wanted == 0


def test_collect_refuses_what_is_there_and_too_large() -> None:
    source = ScriptedSource()
    source.deliver(b"abc", True)
    with pytest.raises(ValueError):
        asyncio.run(collect(source, 2, _too_large))


def test_collect_waits_for_the_end() -> None:
    async def scene() -> bytes:
        source = ScriptedSource()
        source.deliver(b"a")
        loop = asyncio.get_running_loop()
        loop.call_soon(source.deliver, b"b")
        loop.call_soon(source.deliver, b"c", True)
        return await collect(source, 3, _too_large)

    assert asyncio.run(scene()) == b"abc"


def test_collect_stops_the_producer_at_the_limit() -> None:
    async def scene() -> ScriptedSource:
        source = ScriptedSource()
        loop = asyncio.get_running_loop()
        loop.call_soon(source.deliver, b"abcd")
        loop.call_soon(source.deliver, b"e")
        with pytest.raises(ValueError):
            await collect(source, 3, _too_large)
        return source

    assert len(asyncio.run(scene()).aborted_with) == 1


@pytest.mark.parametrize("ending", ["fail", "abort"])
def test_collect_raises_what_the_source_ended_with(ending: str) -> None:
    async def scene() -> None:
        source = ScriptedSource()
        source.deliver(b"a")
        getattr(source, ending)(BROKEN)
        await collect(source, 3, _too_large)

    with pytest.raises(OSError, match="broken"):
        asyncio.run(scene())


def test_collect_raises_a_failure_that_comes_while_it_waits() -> None:
    async def scene() -> None:
        source = ScriptedSource()
        asyncio.get_running_loop().call_soon(source.fail, BROKEN)
        await collect(source, 3, _too_large)

    with pytest.raises(OSError, match="broken"):
        asyncio.run(scene())


def test_a_cancelled_collect_does_not_trip_over_late_bytes() -> None:
    async def scene() -> None:
        source = ScriptedSource()
        task = asyncio.ensure_future(collect(source, 3, _too_large))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        source.deliver(b"ab")
        source.deliver(b"cd")

    asyncio.run(scene())


# -- whether the next byte is awaited ------------------------------------------------


def test_a_source_awaits_bytes_while_nobody_holds_it_and_somebody_needs_them() -> None:
    source = ScriptedSource()
    assert not source.is_awaited, "nobody takes them yet"
    source.join(ScriptedSink())
    assert source.is_awaited
    source.hold(Hold.SINK_FULL)
    assert not source.is_awaited
    source.release(Hold.SINK_FULL)
    source.is_optional = True
    assert not source.is_awaited


def test_a_collected_body_is_kept_once() -> None:
    async def run() -> None:
        source = ScriptedSource()
        call_soon = asyncio.get_running_loop().call_soon
        piece = b"".join([b"a", b"b"])  # an object of its own
        call_soon(source.deliver, piece)
        call_soon(source.deliver, b"c", True)
        assert await collect(source, 10, AssertionError) == b"abc"
        # The source outlives this; the list of pieces behind it must not.
        assert not [one for one in gc.get_referrers(piece) if isinstance(one, list)]

    asyncio.run(run())
