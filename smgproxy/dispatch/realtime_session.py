"""A realtime session while it runs: two directions, and how it comes to an end.

Nothing here waits. Frames pass from read to write by plain calls; whatever ends the
session ends both directions at once, each with a Close frame where one can stand.
"""

from __future__ import annotations

import asyncio

from smgproxy.core.errors import UpstreamError
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.flow import Sink, Source
from smgproxy.telemetry.realtime import CLIENT, GATEWAY, WORKER, RealtimeStats
from smgproxy.upstream.websocket import SocketLeg
from smgproxy.wire.websocket import (
    ABNORMAL,
    GOING_AWAY,
    INTERNAL_ERROR,
    FrameError,
    FrameWatch,
    close_frame,
)

# How long the other side may take to answer a Close that was relayed to it.
CLOSE_SECS = 5.0


class Direction(Sink):
    """Passes the frames of one side on, byte for byte, and watches where they end."""

    __slots__ = ("side", "watch", "out", "moved_bytes", "_session")

    def __init__(
        self, session: Session, side: str, watch: FrameWatch, out: Sink
    ) -> None:
        """``side``: who sends. ``out``: the other side's transport."""
        self.side = side
        self.watch = watch
        self.out = out
        self.moved_bytes = 0
        self._session = session
        super().__init__()

    @property
    def source(self) -> Source | None:
        """That of the transport, which is the one to hold it."""
        return self.out.source

    @source.setter
    def source(self, source: Source | None) -> None:
        self.out.source = source

    def write(self, data: bytes, end: bool = False) -> None:
        """Pass on what is legal."""
        session, watch = self._session, self.watch
        if session.is_over:
            return
        try:
            data = watch.feed(data)
        except FrameError as error:
            self._pass(error.passed)
            session.on_fault(self, error)
            return
        if data:
            self.moved_bytes += len(data)
            self.out.write(data)
        if end or watch.closing is not None:
            self._follow(end)

    def abort(self, error: Exception) -> None:
        """The side's connection broke."""
        self._session.on_end(self)

    def _follow(self, end: bool) -> None:
        if self.watch.closing is not None:
            self._session.on_close(self)
        if end:
            self._session.on_end(self)

    def _pass(self, data: bytes) -> None:
        if data:
            self.moved_bytes += len(data)
            self.out.write(data)


class Session:
    """A client and a worker that talk, until one of them closes or is lost.

    ``over`` is fulfilled when nothing is left to relay.
    """

    __slots__ = (
        *("over", "is_over", "from_client", "from_worker"),
        *("_exchange", "_leg", "_stats", "_first", "_closing_since"),
        *("_began", "_moved_at", "_moved_bytes", "_counted"),
    )

    def __init__(
        self,
        exchange: Exchange,
        leg: SocketLeg,
        watches: tuple[FrameWatch, FrameWatch],
        stats: RealtimeStats,
        loop: asyncio.AbstractEventLoop,
        now: float,
    ) -> None:
        """``watches``: of the client's frames, and of the worker's."""
        self.over: asyncio.Future[None] = loop.create_future()
        self.is_over = False
        self._exchange = exchange
        self._leg = leg
        self._stats = stats
        self.from_client = Direction(self, CLIENT, watches[0], leg.request)
        self.from_worker = Direction(self, WORKER, watches[1], exchange.response)
        self._first: Direction | None = None  # whose Close passed first
        self._closing_since = 0.0
        self._began = self._moved_at = now
        self._moved_bytes = 0
        self._counted = 0, 0

    def join(self) -> None:
        """Relay from now on, what has gathered first."""
        self._leg.join(self.from_worker)
        if not self.is_over:
            self._exchange.request.join(self.from_client)

    # -- what the two directions find ------------------------------------------------

    def on_close(self, direction: Direction) -> None:
        """A Close frame has passed; the session is over with the second."""
        if self._first is None:
            self._first = direction
        elif direction is not self._first:
            self._end_as_closed(self._first)

    def on_fault(self, direction: Direction, error: FrameError) -> None:
        """A side sent what is no frame: it is told so, the other that all is over."""
        if direction is self.from_client:
            self.end(error.code, error.reason, GOING_AWAY, by=GATEWAY)
        else:
            reason = f"the worker broke the protocol: {error.reason}"
            self.end(INTERNAL_ERROR, reason, error.code, by=GATEWAY)

    def on_end(self, direction: Direction) -> None:
        """A side is gone. If a Close went before, all is in order."""
        if self.is_over:
            return
        if self._first is not None:
            self._end_as_closed(self._first)
        elif direction is self.from_worker:
            reason = "the connection to the worker is lost"
            self.end(INTERNAL_ERROR, reason, None, by=WORKER, counted=ABNORMAL)
        else:
            # The worker is to see what we see: an end without a Close.
            self._finish(CLIENT, ABNORMAL)
            self._leg.abort(UpstreamError("the client left"))
            self._exchange.cancel(Verdict.CLIENT_GONE)
            self._exchange.response.write(b"", True)

    # -- what others decide ----------------------------------------------------------

    def sweep(self, now: float, idle_secs: float, lifetime_secs: float) -> None:
        """Look at the deadlines; 0 is none."""
        self._count_bytes()
        moved = self.from_client.moved_bytes + self.from_worker.moved_bytes
        if moved != self._moved_bytes:
            self._moved_bytes = moved
            self._moved_at = now
        if self._first is not None:
            if not self._closing_since:
                self._closing_since = now
            elif now - self._closing_since > CLOSE_SECS:
                self._end_as_closed(self._first)
        elif idle_secs and now - self._moved_at > idle_secs:
            reason = f"idle for {idle_secs:g} seconds"
            self.end(GOING_AWAY, reason, GOING_AWAY, by=GATEWAY)
        elif lifetime_secs and now - self._began > lifetime_secs:
            reason = f"the session has lasted {lifetime_secs:g} seconds"
            self.end(GOING_AWAY, reason, GOING_AWAY, by=GATEWAY)

    def end(
        self,
        code: int,
        reason: str,
        worker_code: int | None,
        *,
        by: str,
        counted: int | None = None,
    ) -> None:
        """Close both sides, the client with ``code``, the worker with its own.

        ``worker_code``: None for a worker that is gone. A side that was sent a Close
        gets no second; one that is within a frame is cut off.
        """
        if self.is_over:
            return
        self._finish(by, code if counted is None else counted)
        if worker_code is None:
            self._leg.abort(UpstreamError("the worker is gone"))
        else:
            frame = close_frame(worker_code, reason, is_masked=True)
            if not _say(self.from_client, frame):
                self._leg.abort(UpstreamError("the session is over"))
        frame = close_frame(code, reason, is_masked=False)
        if not _say(self.from_worker, frame):
            self._exchange.error_code = "stream_error"
            self._exchange.response.abort(UpstreamError(reason))

    def abandon(self) -> None:
        """The client is gone: nobody is left to be told."""
        if not self.is_over:
            self._finish(CLIENT, ABNORMAL)

    def _end_as_closed(self, first: Direction) -> None:
        """Whoever was not answered gets the code and reason back."""
        closing = first.watch.closing
        assert closing is not None
        self.end(closing.code, closing.reason, closing.code, by=first.side)

    def _finish(self, by: str, code: int) -> None:
        self.is_over = True
        self._count_bytes()
        self._stats.count_close(by, code)
        if not self.over.done():
            self.over.set_result(None)

    def _count_bytes(self) -> None:
        """The bytes of open sessions count as well."""
        stats = self._stats
        sides = self.from_client.moved_bytes, self.from_worker.moved_bytes
        stats.from_clients += sides[0] - self._counted[0]
        stats.from_workers += sides[1] - self._counted[1]
        self._counted = sides


def _say(direction: Direction, frame: bytes) -> bool:
    """End a direction with a Close; False where none can be put."""
    if direction.watch.closing is not None:
        frame = b""
    elif not direction.watch.is_between:
        return False
    direction.out.write(frame, True)
    return True
