"""All flow control there is: a Source pushes bytes into a Sink until somebody holds it.

Plain calls between two objects; nothing here awaits, except ``collect``, the door
between callbacks and coroutines.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from io import BytesIO

from smgproxy.core.message import ResponseHead


class Hold:
    """Reasons to stop reading; a source reads on when none is left."""

    NO_SINK = 1  # nobody takes the bytes yet
    SINK_FULL = 2  # the sink's transport is above its high-water mark
    PIPELINED = 4  # an earlier request on the connection is still being answered


# How much a source without a sink gathers before it stops its transport: one read's
# worth, so that a small request never pauses its connection and its client's leaving
# is noticed while it waits.
BACKLOG_BYTES = 64 * 1024

# Pieces of a body that nobody needs apart are put together up to this size: each takes
# a hundred bytes of its own, and a client of HTTP/2 may send a body byte by byte.
SMALL_BYTES = 1024

# Pieces of a body, each with whether it is the last.
_Pieces = list[tuple[bytes, bool]] | deque[tuple[bytes, bool]]

# A stream's last bytes, enough to tell whether they end an event (CR LF CR LF).
TAIL_BYTES = 4


class Sink:
    """Takes a message: a head where the message has one, then body bytes, then the end.

    ``start`` is held back until the next call, so head and first bytes can leave in
    one write. ``write`` never blocks; a sink that is full holds ``source`` before it
    returns. Writing after ``write(..., end=True)`` or ``abort`` is a bug.
    """

    __slots__ = ("source",)

    def __init__(self) -> None:
        self.source: Source | None = None

    def start(self, head: ResponseHead) -> None:
        """Begin the message; sent with the first bytes, or by ``flush``."""
        raise NotImplementedError

    def write(self, data: bytes, end: bool = False) -> None:
        """Take the next bytes; ``end`` with the last of them."""
        raise NotImplementedError

    def flush(self) -> None:
        """Send a head that is still held back."""

    def abort(self, error: Exception) -> None:
        """No more bytes will come, and the message is not complete."""
        raise NotImplementedError


class Source:
    """Where body bytes come from: a client's upload or a worker's reply.

    Delivers to one sink, in order, and keeps quiet while anyone holds it. A hold is a
    request: bytes already read may still be delivered by the transport; they wait in
    the backlog.
    """

    __slots__ = (
        "_sink",
        "_holds",
        "_backlog",
        "_backlog_bytes",
        "_is_draining",
        "_is_paused",
        "_error",
        "is_ended",
        "is_optional",
        "delivered",
        "tail",
    )

    # Up to which size pieces that wait are put together; a worker's stay as they came.
    small_bytes = 0

    def __init__(self) -> None:
        self._sink: Sink | None = None
        self._holds = Hold.NO_SINK
        # A list until it is drained: most bodies come in one read and are taken whole.
        self._backlog: _Pieces | None = None
        self._backlog_bytes = 0
        self._is_draining = False
        self._is_paused = False
        self._error: Exception | None = None
        self.is_ended = False  # the producer said so, or failed; nothing more comes
        # Said by a consumer that can do without the rest: no deadline hurries it.
        self.is_optional = False
        self.delivered = 0  # bytes, counted as they arrive
        self.tail = b""

    # -- the consumer's side ---------------------------------------------------------

    def join(self, sink: Sink) -> None:
        """Deliver to ``sink`` from now on, what has gathered first."""
        self._sink = sink
        sink.source = self
        self.on_wanted()
        self.release(Hold.NO_SINK)

    def hold(self, why: int) -> None:
        """Deliver nothing until ``why`` is released."""
        self._holds |= why
        self._match_transport()

    def release(self, why: int) -> None:
        """Lift one hold; when none is left, empty the backlog and read on."""
        self._holds &= ~why
        if self._is_draining:
            return  # the drain that runs looks again, and matches when it is through
        if not self._holds and (self._backlog or self._error is not None):
            self._drain()
        self._match_transport()

    def abort(self, error: Exception) -> None:
        """The consumer wants no more: drop the backlog and stop the producer.

        Whoever joins or collects later is told ``error``.
        """
        self._backlog = None
        self._backlog_bytes = 0
        if self._sink is not None:
            self._sink.source = None
            self._sink = None
        self._holds |= Hold.NO_SINK
        self._error = error
        was_paused, self._is_paused = self._is_paused, False
        if not self.is_ended:
            self.is_ended = True
            self.on_abort(error)
        elif was_paused:
            self.on_resume()

    @property
    def is_held(self) -> bool:
        """Whether anyone asks for silence; a held source is waiting, not stalling."""
        return bool(self._holds)

    @property
    def is_awaited(self) -> bool:
        """Whether the next byte is needed and may come: the producer's clock runs."""
        return not self._holds and not self.is_optional

    def take_all(self) -> bytes | None:
        """The whole body when it has already come in, else None.

        May be asked again after ``None``; the bytes are given once.
        """
        if not self.is_ended or self._error is not None:
            return None
        backlog = self._backlog
        self._sink = None
        if backlog is not None:
            self._backlog = None
            self._backlog_bytes = 0
        if self._is_paused:
            self._match_transport()
        if not backlog:
            return b""
        if len(backlog) == 1:
            return backlog[0][0]
        return b"".join([piece for piece, _ in backlog])

    # -- the producer's side ---------------------------------------------------------

    def deliver(self, data: bytes, end: bool = False) -> None:
        """Pass on bytes that came in; ``end`` with the last of them."""
        if self.is_ended:
            return  # aborted by its consumer while one read was being delivered
        size = len(data)
        self.delivered += size
        if size >= TAIL_BYTES:
            self.tail = data
        elif size:
            self.tail = self.tail[-TAIL_BYTES:] + data
        if end:
            self.is_ended = True
        if self._holds or self._backlog:
            self._keep(data, end, size)
        else:
            self._sink.write(data, end)  # type: ignore[union-attr]

    def fail(self, error: Exception) -> None:
        """The body broke; what came in before still goes first."""
        if self.is_ended:
            return
        self.is_ended = True
        self._error = error
        if not self._holds and not self._is_draining:
            self._drain()

    # -- what a transport's protocol overrides ---------------------------------------

    def on_pause(self) -> None:
        """Stop reading from the transport."""

    def on_resume(self) -> None:
        """Read on."""

    def on_abort(self, error: Exception) -> None:
        """Nobody wants the rest of this body."""

    def on_wanted(self) -> None:
        """Somebody is about to read the body (the moment for 100 Continue)."""

    # -- inside ----------------------------------------------------------------------

    def _keep(self, data: bytes, end: bool, size: int) -> None:
        backlog = self._backlog
        if backlog is None:
            self._backlog = [(data, end)]
        else:
            if backlog and len(backlog[-1][0]) + size <= self.small_bytes:
                data = backlog.pop()[0] + data
            backlog.append((data, end))
        self._backlog_bytes += size
        if self._holds != Hold.NO_SINK or self._backlog_bytes >= BACKLOG_BYTES:
            self._match_transport()

    def _drain(self) -> None:
        self._is_draining = True
        backlog = self._backlog
        if isinstance(backlog, list):
            backlog = self._backlog = deque(backlog)
        try:
            # write() may hold us again, or abort us: look before every piece, and
            # let only the outermost call drain.
            while backlog and backlog is self._backlog and not self._holds:
                data, end = backlog.popleft()
                self._backlog_bytes -= len(data)
                self._sink.write(data, end)  # type: ignore[union-attr]
        finally:
            self._is_draining = False
        error = self._error
        if error is not None and not self._backlog and not self._holds:
            self._error = None
            if self._sink is not None:
                self._sink.abort(error)

    def _match_transport(self) -> None:
        """Pause or resume the transport if the holds now ask for the other."""
        holds = self._holds
        if holds & ~Hold.NO_SINK:
            paused = True
        else:
            # NO_SINK alone bites only once a read's worth is waiting.
            paused = bool(holds) and self._backlog_bytes >= BACKLOG_BYTES
        if paused != self._is_paused:
            self._is_paused = paused
            if not paused:
                self.on_resume()
            elif not self.is_ended:
                self.on_pause()
            else:
                self._is_paused = False


class Collector(Sink):
    """Gathers a whole body for one waiting coroutine.

    In one buffer that grows, and in the end is the body: to join the pieces of 200 MB
    takes 90 ms, in which nothing else runs, and twice the memory.
    """

    __slots__ = ("_body", "_size", "_limit", "_too_large", "_waiter")

    def __init__(
        self,
        limit_bytes: int,
        too_large: Callable[[], Exception],
        waiter: asyncio.Future[bytes],
    ) -> None:
        super().__init__()
        self._body = BytesIO()
        self._size = 0
        self._limit = limit_bytes
        self._too_large = too_large
        self._waiter = waiter

    def write(self, data: bytes, end: bool = False) -> None:
        """Keep the bytes, or give up at the limit."""
        self._size += len(data)
        if self._size > self._limit:
            error = self._too_large()
            self._body = BytesIO()
            if self.source is not None:
                self.source.abort(error)
            self.abort(error)
            return
        self._body.write(data)
        if end and not self._waiter.done():
            # The source still points here: keep no second hold on the body.
            body, self._body = self._body, BytesIO()
            self._waiter.set_result(body.getvalue())

    def abort(self, error: Exception) -> None:
        """The body will not come: tell the one who waits."""
        if not self._waiter.done():
            self._waiter.set_exception(error)


async def collect(
    source: Source, limit_bytes: int, too_large: Callable[[], Exception]
) -> bytes:
    """The whole body of ``source``.

    Raises ``too_large()`` beyond ``limit_bytes`` and whatever error the source fails
    with. The deadline is the producer's: it fails a source that stalls.
    """
    whole = source.take_all()
    if whole is not None:
        if len(whole) > limit_bytes:
            raise too_large()
        return whole
    waiter: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    collector = Collector(limit_bytes, too_large, waiter)
    try:
        source.join(collector)
        return await waiter
    finally:
        collector.source = None
        # An error's traceback holds this frame, and the waiter holds the error.
        del collector, waiter
