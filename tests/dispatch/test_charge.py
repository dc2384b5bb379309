"""The keeper of a stream's last bytes: transparent, and bounded."""

from __future__ import annotations

from smgproxy.api.token_usage import TAIL_BYTES
from smgproxy.core.errors import BodyAborted
from smgproxy.core.flow import Hold
from smgproxy.dispatch.charge import TailKeeper
from tests.core.scripted import ScriptedSink, ScriptedSource


def test_hold_of_the_inner_sink_reaches_the_source() -> None:
    source, inner = ScriptedSource(), ScriptedSink()
    source.join(TailKeeper(inner))
    assert inner.source is source
    inner.source.hold(Hold.SINK_FULL)
    assert source.is_held


def test_aborted_source_lets_go_of_the_inner_sink() -> None:
    source, inner = ScriptedSource(), ScriptedSink()
    source.join(TailKeeper(inner))
    source.abort(BodyAborted())
    assert inner.source is None


def test_tail_is_bounded_and_is_the_streams_end() -> None:
    source, inner = ScriptedSource(), ScriptedSink()
    keeper = TailKeeper(inner)
    source.join(keeper)
    sizes = (1, 7, TAIL_BYTES, 3 * TAIL_BYTES, 100, 0, TAIL_BYTES - 1, 5)
    stream = b""
    for number, size in enumerate(sizes * 4):
        piece = bytes([number]) * size
        stream += piece
        source.deliver(piece)
        kept = bytes(keeper._tail)
        assert len(kept) <= 2 * TAIL_BYTES
        assert kept[-TAIL_BYTES:] == stream[-TAIL_BYTES:]
