"""Pieces of a body that are put together, to take no more than their bytes."""

from __future__ import annotations

import asyncio
import sys

import pytest

from smgproxy.core.flow import (
    SMALL_BYTES,
    Collector,
    collect,
)
from tests.core.scripted import ScriptedSink, ScriptedSource

BROKEN = OSError("broken")


def _too_large() -> Exception:
    return ValueError("too large")


def test_small_pieces_that_wait_are_put_together_where_nobody_needs_them_apart(
    source: ScriptedSource, sink: ScriptedSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ScriptedSource, "small_bytes", 3)
    for _ in range(7):
        source.deliver(b"x")
    source.deliver(b"yyyy")
    source.deliver(b"", True)
    source.join(sink)
    assert sink.pieces == [b"xxx", b"xxx", b"x", b"yyyy", b""]
    assert sink.is_ended


def test_collect_keeps_no_million_pieces(source: ScriptedSource) -> None:
    async def whole() -> bytes:
        task = asyncio.ensure_future(collect(source, 1 << 30, _too_large))
        await asyncio.sleep(0)
        for number in range(5 * SMALL_BYTES):
            source.deliver(b"%d" % (number % 10))
        collector = source._sink
        assert isinstance(collector, Collector)
        assert sys.getsizeof(collector._body) < 2 * 5 * SMALL_BYTES
        source.deliver(b"", True)
        return await task

    expected = b"".join(b"%d" % (number % 10) for number in range(5 * SMALL_BYTES))
    assert asyncio.run(whole()) == expected
