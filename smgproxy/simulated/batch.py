"""The pace at which answers come: a worker's running batch.

One timer serves all answers in the making. A run is filed under the tick in
which its next token is due, so a tick touches only the runs that have something
to say. The clock is an argument: an event loop, or one that a test winds.
"""

import math
from collections.abc import Callable
from typing import Protocol

TICK_SECS = 0.004
# Bounds one write of an unpaced stream to a few ten kilobytes.
_STEPS_PER_WRITE = 64
_NEVER = math.inf
# Ticks and steps are whole numbers of sums of floats: what lies this close to
# its moment has reached it.
_ROUNDING = 1e-4


class TimerHandle(Protocol):
    """A timer that can be called off."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The two things an event loop is asked for here."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], None], /) -> TimerHandle: ...


class Pieces(Protocol):
    """An answer that can be had step by step (see replies)."""

    def opening(self) -> list[bytes]: ...

    def step(self, index: int) -> list[bytes]: ...

    def closing(self) -> list[bytes]: ...


class Outlet(Protocol):
    """Where an answer goes: a client's connection."""

    @property
    def is_full(self) -> bool: ...

    def send_events(self, events: list[bytes], is_last: bool) -> None: ...

    def send_whole(self, body: bytes) -> None: ...


class Run:
    """One request that the worker is busy with.

    It has either a whole body, due after the last step, or pieces that stream.
    The batch alone changes it. `tick` is where it is filed, 0 while it is not:
    over, or parked until its client has read what was sent.
    """

    __slots__ = (
        "outlet",
        "answer",
        "steps",
        "prompt_tokens",
        "first_at",
        "sent",
        "tick",
        "is_parked",
        "content_type",
    )

    def __init__(
        self,
        outlet: Outlet,
        answer: Pieces | bytes,
        steps: int,
        prompt_tokens: int,
        content_type: bytes = b"application/json",
    ) -> None:
        self.outlet = outlet
        self.answer = answer
        self.content_type = content_type  # of a whole body
        self.steps = steps
        self.prompt_tokens = prompt_tokens
        self.first_at = 0.0
        self.sent = 0
        self.tick = 0
        self.is_parked = False


class Batch:
    """All runs of one worker, and the counters its metrics are read from."""

    __slots__ = (
        "_clock",
        "_ttft_secs",
        "rate",
        "_interval",
        "_live",
        "_wheel",
        "_timer",
        "_armed_tick",
        "prompt_tokens_total",
        "steps_total",
        "started_total",
        "aborted_total",
    )

    def __init__(self, clock: Clock, ttft_ms: float, tokens_per_second: float) -> None:
        self._clock = clock
        self._ttft_secs = ttft_ms / 1000
        self.rate = tokens_per_second
        self._interval = 1 / tokens_per_second if tokens_per_second else 0.0
        self._live: set[Run] = set()
        self._wheel: dict[int, list[Run]] = {}
        self._timer: TimerHandle | None = None
        self._armed_tick = _NEVER
        self.prompt_tokens_total = 0
        self.steps_total = 0
        self.started_total = 0
        self.aborted_total = 0

    @property
    def running(self) -> int:
        """How many requests the worker is busy with."""
        return len(self._live)

    @property
    def is_armed(self) -> bool:
        """Whether something is due some time."""
        return self._timer is not None

    def used_tokens(self) -> int:
        """Tokens that would now lie in the cache of an engine."""
        now = self._clock.time()
        return sum(run.prompt_tokens + self._due(run, now) for run in self._live)

    def throughput(self) -> float:
        """Tokens per second that the runs past their first token make now."""
        now = self._clock.time()
        return self.rate * sum(run.first_at <= now for run in self._live)

    def start(self, run: Run) -> None:
        """Take a run in; an unpaced one may be over when this returns."""
        now = self._clock.time()
        run.first_at = now + self._ttft_secs
        self._live.add(run)
        self.started_total += 1
        self.prompt_tokens_total += run.prompt_tokens
        ready_at = run.first_at
        if isinstance(run.answer, bytes):
            ready_at += run.steps * self._interval
        if ready_at <= now:
            self._advance(run, now)
        else:
            self._file(run, ready_at)

    def resume(self, run: Run) -> None:
        """Go on with a run whose client was too slow and has caught up."""
        if run.is_parked:
            run.is_parked = False
            self._file(run, self._clock.time())

    def drop(self, run: Run) -> None:
        """Stop at once: the client is gone."""
        if run not in self._live:
            return
        self._live.discard(run)
        self.aborted_total += 1
        bucket = self._wheel.get(run.tick)
        if bucket is not None:
            bucket.remove(run)
            if not bucket:
                del self._wheel[run.tick]
                self._arm()
        run.tick = 0

    def _file(self, run: Run, due_at: float) -> None:
        run.tick = tick = math.ceil(due_at / TICK_SECS - _ROUNDING)
        bucket = self._wheel.get(tick)
        if bucket is None:
            self._wheel[tick] = [run]
            if tick < self._armed_tick:
                self._arm()
        else:
            bucket.append(run)

    def _arm(self) -> None:
        """Have the one timer ring at the earliest tick that holds a run."""
        tick = min(self._wheel, default=_NEVER)
        if tick == self._armed_tick:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed_tick = tick
        if tick != _NEVER:
            self._timer = self._clock.call_at(tick * TICK_SECS, self._on_tick)

    def _on_tick(self) -> None:
        # No filing below may arm the timer: that is done once, at the end.
        self._timer = None
        self._armed_tick = 0
        now = self._clock.time()
        # Event loops tell the time in whole milliseconds and may ring a hair
        # before the asked moment.
        last = int(now / TICK_SECS + 0.01)
        for tick in sorted(tick for tick in self._wheel if tick <= last):
            for run in self._wheel.pop(tick):
                run.tick = 0
                self._advance(run, now)
        self._armed_tick = _NEVER
        self._arm()

    def _due(self, run: Run, now: float) -> int:
        """How many of a run's steps have their moment behind them."""
        elapsed_secs = now - run.first_at
        if elapsed_secs < -_ROUNDING * TICK_SECS:
            return 0
        if not self.rate:
            return run.steps
        return min(run.steps, int(elapsed_secs * self.rate + _ROUNDING) + 1)

    def _advance(self, run: Run, now: float) -> None:
        """Send what is due, and file the run for what is not."""
        pieces = run.answer
        if isinstance(pieces, bytes):
            self._finish(run, run.steps)
            run.outlet.send_whole(pieces)
            return
        due = self._due(run, now)
        while not run.outlet.is_full:
            upto = min(due, run.sent + _STEPS_PER_WRITE)
            is_last = upto == run.steps
            is_first = run.sent == 0 and (upto > 0 or is_last)
            events = pieces.opening() if is_first else []
            for index in range(run.sent, upto):
                events += pieces.step(index)
            if is_last:
                events += pieces.closing()
                self._finish(run, upto - run.sent)
            else:
                self.steps_total += upto - run.sent
            run.sent = upto
            if events:
                run.outlet.send_events(events, is_last)
            if is_last:
                return
            if upto == due:
                self._file(run, run.first_at + upto * self._interval)
                return
        run.is_parked = True

    def _finish(self, run: Run, steps: int) -> None:
        self._live.discard(run)
        self.steps_total += steps
