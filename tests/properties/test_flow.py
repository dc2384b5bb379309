"""Source and Sink, in any order: bytes in order, pauses in turn, one end, no stall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from smgproxy.core.flow import BACKLOG_BYTES, Hold, collect
from tests.core.scripted import ScriptedSink, ScriptedSource

HOLDS = st.sampled_from([Hold.SINK_FULL, Hold.PIPELINED])
PIECES = st.one_of(
    st.binary(min_size=1, max_size=6),
    st.sampled_from([b"x" * (BACKLOG_BYTES - 1), b"y" * BACKLOG_BYTES]),
)
# What a sink does from inside one of its writes.
REACTIONS = st.lists(
    st.sampled_from(["", "hold", "release", "hold, release", "abort", "deliver"]),
    max_size=6,
)


class Flow(RuleBasedStateMachine):
    """A producer, a source, and a sink that reacts from inside its writes."""

    def __init__(self) -> None:
        super().__init__()
        self.source = ScriptedSource()
        self.sink = ScriptedSink(self._react)
        self.reactions: list[str] = []
        self.given = b""  # every byte the source had to take
        self.is_joined = False
        self.is_ended = False  # the producer's end, or its failure
        self.failure: Exception | None = None
        self.is_aborted = False
        self.held: set[int] = set()

    @initialize(reactions=REACTIONS)
    def script(self, reactions: list[str]) -> None:
        self.reactions = reactions

    # -- the producer ----------------------------------------------------------------

    @precondition(lambda self: not self.source.is_paused)
    @rule(data=PIECES, end=st.booleans())
    def deliver(self, data: bytes, end: bool) -> None:
        self._deliver(data, end)

    @rule(data=PIECES)
    def deliver_what_was_read_before_the_pause(self, data: bytes) -> None:
        self._deliver(data, False)

    @rule()
    def fail(self) -> None:
        if not self.is_ended and not self.is_aborted:
            self.failure = OSError("broken")
            self.is_ended = True
        self.source.fail(OSError("broken"))

    # -- the consumer ----------------------------------------------------------------

    @precondition(lambda self: not self.is_joined)
    @rule()
    def join(self) -> None:
        self.is_joined = True
        self.source.join(self.sink)

    @rule(why=HOLDS)
    def hold(self, why: int) -> None:
        self.held.add(why)
        self.source.hold(why)

    @rule(why=HOLDS)
    def release(self, why: int) -> None:
        self.held.discard(why)
        self.source.release(why)

    @rule()
    def abort(self) -> None:
        self._abort()

    @precondition(lambda self: not self.is_joined)
    @rule()
    def take_all(self) -> None:
        taken = self.source.take_all()
        is_whole = self.is_ended and not self.failure and not self.is_aborted
        assert (taken is not None) == is_whole
        if taken is not None:
            assert taken == self.given
            self.is_joined = True
            self.sink.pieces = [taken]
            self.sink.is_ended = True

    @precondition(lambda self: not self.is_joined and self.is_ended)
    @rule()
    def collect(self) -> None:
        if self.held:
            return  # it would wait, as it should
        self.is_joined = True
        try:
            taken = asyncio.run(collect(self.source, 1 << 30, AssertionError))
        except OSError as error:
            assert self.failure or self.is_aborted
            self.sink.errors.append(error)
        else:
            assert not self.failure and not self.is_aborted
            self.sink.pieces = [taken]
            self.sink.is_ended = True

    # -- what always holds -----------------------------------------------------------

    @invariant()
    def bytes_come_in_order(self) -> None:
        assert self.given.startswith(self.sink.data)

    @invariant()
    def nothing_is_kept_from_a_sink_that_takes(self) -> None:
        if self.is_joined and not self.held and not self.is_aborted:
            if not self.sink.errors:
                assert self.sink.data == self.given
            assert self.sink.is_ended == (self.is_ended and not self.failure)

    @invariant()
    def the_error_comes_once_and_last(self) -> None:
        assert len(self.sink.errors) <= 1
        if self.is_joined and not self.held and not self.is_aborted:
            assert bool(self.sink.errors) == bool(self.failure)

    @invariant()
    def a_transport_that_could_read_is_not_asleep(self) -> None:
        if self.is_aborted or self.held:
            return
        waiting = len(self.given) - len(self.sink.data)
        if self.is_joined or waiting < BACKLOG_BYTES:
            assert not self.source.is_paused

    @invariant()
    def a_producer_that_goes_on_is_paused_while_held(self) -> None:
        if self.held and not self.is_ended and not self.is_aborted:
            assert self.source.is_paused

    @invariant()
    def the_producer_hears_of_an_abort_unless_it_had_ended(self) -> None:
        heard = len(self.source.aborted_with)
        assert heard == (self.is_aborted and not self.is_ended)

    # -- inside ----------------------------------------------------------------------

    def _deliver(self, data: bytes, end: bool) -> None:
        if not self.is_ended and not self.is_aborted:
            self.given += data
            self.is_ended = end
        self.source.deliver(data, end)

    def _abort(self) -> None:
        self.sink.is_quiet = self.is_joined
        self.is_aborted = True
        self.source.abort(OSError("not wanted"))

    def _react(self) -> None:
        reaction = self.reactions.pop(0) if self.reactions else ""
        if "hold" in reaction:
            self.hold(Hold.SINK_FULL)
        if "release" in reaction:
            self.release(Hold.SINK_FULL)
        if reaction == "abort":
            self._abort()
        if reaction == "deliver":
            self._deliver(b"again", False)


TestFlow = Flow.TestCase


# -- a coroutine that waits ----------------------------------------------------------

LIMIT = 40
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["hold", "release"]), HOLDS),
        st.tuples(st.just("deliver"), st.binary(min_size=1, max_size=20)),
    ),
    max_size=8,
)
ENDINGS = st.sampled_from(["end", "fail", "abort"])


class TooLarge(Exception):
    """More than was asked for."""


async def collected(source: ScriptedSource) -> bytes | type[Exception]:
    """What comes of waiting for a whole body."""
    try:
        return await collect(source, LIMIT, TooLarge)
    except (OSError, TooLarge) as error:
        return type(error)


@given(before=STEPS, behind=STEPS, ending=ENDINGS, is_late=st.booleans())
@example(before=[], behind=[("hold", Hold.SINK_FULL)], ending="end", is_late=False)
def test_whoever_waits_for_a_body_is_woken_once_it_ends_and_nobody_holds_it(
    before: list[tuple[str, int | bytes]],
    behind: list[tuple[str, int | bytes]],
    ending: str,
    is_late: bool,
) -> None:
    source = ScriptedSource()
    steps: dict[str, Callable[[Any], None]] = {
        **{"hold": source.hold, "release": source.release, "deliver": source.deliver},
        "end": lambda last: source.deliver(last, True),
        "fail": lambda _: source.fail(OSError("broken")),
        "abort": lambda _: source.abort(OSError("not wanted")),
    }
    is_aborted = ending == "abort"
    # Only who does not wait for it yet may abort it: `abort` is the waiter's own.
    first, then = ([*before, ("abort", b"")], []) if is_aborted else (before, behind)
    last = [] if is_aborted else [(ending, b"!")]
    held = [("release", Hold.SINK_FULL), ("release", Hold.PIPELINED)]
    then = [*then, *held, *last] if is_late else [*then, *last, *held]
    sent = b"".join(
        bytes(data) for name, data in [*first, *then] if name in ("deliver", "end")
    )

    async def scene() -> None:
        for name, what in first:
            steps[name](what)
        waiting = asyncio.create_task(collected(source))
        for name, what in then:
            await asyncio.sleep(0)
            steps[name](what)
        for _ in range(5):  # turns of the loop: the source's future, then the task
            await asyncio.sleep(0)
        assert waiting.done(), "nobody woke it"
        found = await waiting
        if is_aborted or (ending == "fail" and len(sent) <= LIMIT):
            assert found is OSError
        else:
            assert found == (sent if len(sent) <= LIMIT else TooLarge)

    asyncio.run(scene())
