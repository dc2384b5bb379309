"""Sinks that stand before another sink, put in only where they are needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import Headers, ResponseHead
from smgproxy.wire.reslice import PAUSE_SECS, Reslicer

# The loop's call_later.
Later = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class Filter(Sink):
    """Passes everything on; whoever is full behind it holds the source itself."""

    __slots__ = ("_inner",)

    def __init__(self, inner: Sink) -> None:
        self._inner = inner

    @property
    def source(self) -> Source | None:
        """The source that the sink behind holds when it is full."""
        return self._inner.source

    @source.setter
    def source(self, source: Source | None) -> None:
        self._inner.source = source

    def start(self, head: ResponseHead) -> None:
        """Begin the message."""
        self._inner.start(head)

    def write(self, data: bytes, end: bool = False) -> None:
        """Take the next bytes."""
        self._inner.write(data, end)

    def flush(self) -> None:
        """Send a head that is still held back."""
        self._inner.flush()

    def abort(self, error: Exception) -> None:
        """No more bytes will come, and the message is not complete."""
        self._inner.abort(error)


class ResponseHeaders(Filter):
    """Puts header fields of the gateway's in place of a worker's of the same names."""

    __slots__ = ("_fields", "_replaced")

    def __init__(
        self, inner: Sink, fields: Headers, replaced: frozenset[bytes]
    ) -> None:
        super().__init__(inner)
        self._fields = fields
        self._replaced = replaced

    def start(self, head: ResponseHead) -> None:
        """Begin the message with the gateway's fields."""
        kept = [field for field in head.headers if field[0] not in self._replaced]
        self._inner.start(ResponseHead(head.status, kept + self._fields, head.length))


class ResliceSink(Filter):
    """Cuts the deltas of an event stream anew (contract: MiniMax delta re-slicing).

    Its one timer is lazy: it is not moved when bytes come, it looks when it fires.
    """

    __slots__ = ("_reslicer", "_later", "_clock", "_timer")

    def __init__(self, inner: Sink, later: Later, clock: Callable[[], float]) -> None:
        super().__init__(inner)
        self._reslicer = Reslicer()
        self._later = later
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None

    def write(self, data: bytes, end: bool = False) -> None:
        """Take the worker's next bytes."""
        out = self._reslicer.feed(data, self._clock())
        if end:
            out += self._reslicer.finish()
            self._stop()
        elif self._timer is None and self._reslicer.pending_since is not None:
            self._timer = self._later(PAUSE_SECS, self._look)
        if out or end:
            self._inner.write(out, end)

    def close(self) -> None:
        """The exchange is over; nothing is written any more."""
        self._stop()

    def finish(self) -> None:
        """The worker failed: send what is held back, in front of the error."""
        self._stop()
        out = self._reslicer.finish()
        if out:
            self._inner.write(out)

    def abort(self, error: Exception) -> None:
        """No more bytes will come, and the message is not complete."""
        self._stop()
        self._inner.abort(error)

    def _look(self) -> None:
        self._timer = None
        since = self._reslicer.pending_since
        if since is None:
            return
        left = since + PAUSE_SECS - self._clock()
        if left > 0:
            self._timer = self._later(left, self._look)
            return
        out = self._reslicer.pause()
        if out:
            self._inner.write(out)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
