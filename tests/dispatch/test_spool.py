"""Files between a client and a worker: smgproxy/dispatch/spool.py."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from smgproxy.core.flow import Hold
from smgproxy.dispatch.spool import MEMORY_BYTES, READ_BYTES, Spool, SpoolSource
from tests.core.scripted import ScriptedSink


class Turns:
    """A loop whose turns a test takes one by one."""

    def __init__(self) -> None:
        self.due: deque[Any] = deque()

    def call_soon(self, call: Callable[[], None]) -> Any:
        turns = self

        class Handle:
            def cancel(self) -> None:
                turns.due.remove(entry)

        entry = (call,)
        self.due.append(entry)
        return Handle()

    def take(self) -> None:
        self.due.popleft()[0]()


@pytest.fixture
def spool() -> Iterator[Spool]:
    one = Spool()
    yield one
    one.close()


def source_of(spool: Spool) -> tuple[SpoolSource, Turns, ScriptedSink]:
    turns = Turns()
    return SpoolSource(cast(Any, turns), spool, b"<", b">"), turns, ScriptedSink()


@pytest.mark.parametrize(
    "size", [0, 1, READ_BYTES - 1, READ_BYTES, READ_BYTES + 1, MEMORY_BYTES * 2]
)
def test_a_file_comes_back_between_its_head_and_tail(spool: Spool, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    spool.write(data[:size])
    assert (spool.size, spool.is_small) == (size, size <= MEMORY_BYTES)
    source, turns, sink = source_of(spool)
    assert not turns.due, "nothing is read before someone wants it"
    source.join(sink)
    while turns.due:
        turns.take()
    assert b"".join(sink.pieces) == b"<" + data[:size] + b">"
    assert sink.is_ended and not source.is_awaited


def test_one_piece_is_read_in_a_turn_and_none_while_the_sink_is_full(
    spool: Spool,
) -> None:
    spool.write(b"x" * READ_BYTES * 3)
    source, turns, sink = source_of(spool)
    sink.reaction = lambda: source.hold(Hold.SINK_FULL)
    source.join(sink)
    turns.take()
    assert len(sink.pieces) == 1 and not turns.due
    sink.reaction = lambda: None
    source.release(Hold.SINK_FULL)
    assert len(sink.pieces) == 1 and len(turns.due) == 1
    source.hold(Hold.SINK_FULL)
    assert not turns.due
    source.release(Hold.SINK_FULL)
    turns.take()
    assert len(sink.pieces) == 2


def test_nothing_is_read_once_nobody_wants_it(spool: Spool) -> None:
    spool.write(b"x" * READ_BYTES * 3)
    source, turns, sink = source_of(spool)
    source.join(sink)
    turns.take()
    source.abort(RuntimeError())
    assert not turns.due


def test_a_file_that_was_cut_behind_our_back_breaks_the_body(spool: Spool) -> None:
    spool.write(b"x" * READ_BYTES * 2)
    source, turns, sink = source_of(spool)
    source.join(sink)
    turns.take()
    spool.clear()
    spool.rewind()
    turns.take()
    assert not sink.is_ended and len(sink.errors) == 1


def test_a_second_file_replaces_the_first(spool: Spool) -> None:
    spool.write(b"x" * (MEMORY_BYTES + 1))
    spool.clear()
    spool.write(b"last")
    spool.rewind()
    assert (spool.size, spool.read()) == (4, b"last")
