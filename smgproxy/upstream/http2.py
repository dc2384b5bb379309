"""One HTTP/2 connection to a worker, shared by the requests that run there.

Reading is never paused for one leg's sake: a leg that is held gives no credit. Frames
of all streams leave in one write a loop turn.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import (
    GatewayError,
    ReplyBroken,
    ReplyMalformed,
    SendUnseen,
)
from smgproxy.core.message import Headers, WorkerRequest
from smgproxy.upstream.http1 import HIGH_WATER, LOW_WATER
from smgproxy.upstream.http2_leg import Http2Leg, Http2Upload
from smgproxy.upstream.pulse import Pulse
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http2 import (
    CANCEL,
    ENHANCE_YOUR_CALM,
    NO_ERROR,
    PROTOCOL_ERROR,
    REFUSED_STREAM,
    Allowance,
    FrameReader,
    Http2Violation,
    goaway,
)
from smgproxy.wire.http2_calling import CallingSide
from smgproxy.wire.http2_head import request_fields
from smgproxy.wire.http2_output import Http2Output

if TYPE_CHECKING:
    from smgproxy.upstream.pool import WorkerPool

# Workers are ours and few; these bounds only stop a broken one.
_MAX_HEADER_BYTES = 256 * 1024
_MAX_UNREAD_BYTES = 1024 * 1024  # answers to its frames that it does not read
# Frames that say nothing, such as a flush of no bytes: at once, and for ever.
_FREE_FRAMES = 10_000
_FREE_FRAMES_PER_SEC = 10_000.0
# Streams on one connection, whatever the worker would allow.
MAX_STREAMS = 1024
# Ids are never used again; long before they run out another connection takes over.
_LAST_STREAM_ID = 2**30


class SharedConnection(asyncio.Protocol):
    """A connection that carries any number of legs, each on a stream of its own."""

    __slots__ = (
        "_pool",
        "_transport",
        "_reader",
        "_legs",
        "_touched",
        "_most_streams",
        "_is_leaving",
        "_pulse",
        "_is_reading_on",
        "_idle_since",
        "loop",
        "calls",
        "out",
        "made_at",
    )

    def __init__(self, pool: WorkerPool) -> None:
        now = monotonic()
        self._pool: WorkerPool | None = pool
        self._transport: asyncio.Transport | None = None
        free = Allowance(_FREE_FRAMES, _FREE_FRAMES_PER_SEC, now)
        self._reader = FrameReader(_MAX_HEADER_BYTES, now, b"", free)
        self._legs: dict[int, Http2Leg] = {}
        self._touched: list[Http2Leg] = []  # those with something of this read
        self._most_streams = MAX_STREAMS  # less when the worker refused one
        self._is_leaving = False  # takes no new legs
        self._pulse = Pulse(now)
        self._is_reading_on = False  # frames of the last read wait for the next turn
        self._idle_since = now
        self.loop = pool.loop
        self.calls = CallingSide(self, _MAX_HEADER_BYTES)
        self.out = Http2Output(self.calls, pool.loop.call_soon)
        self.made_at = now

    @property
    def is_busy(self) -> bool:
        """Whether any leg runs on it."""
        return bool(self._legs)

    @property
    def has_room(self) -> bool:
        """Whether one more request may be sent."""
        transport = self._transport
        if self._is_leaving or transport is None or transport.is_closing():
            return False
        return len(self._legs) < min(self._most_streams, self.calls.max_streams)

    # -- the pool's side -------------------------------------------------------------

    def send(
        self, request: WorkerRequest, authority: bytes, deadline: float
    ) -> Http2Leg:
        """Send a request on a stream of its own."""
        body = request.body
        leg = self._begin(request, authority, deadline, not body)
        if body:
            leg.upload = upload = Http2Upload(self, leg)
            upload.write(body, True)
        return leg

    def upload(
        self, request: WorkerRequest, authority: bytes, deadline: float
    ) -> Http2Leg:
        """Begin a request whose body follows through the leg's ``request`` sink."""
        leg = self._begin(request, authority, deadline, False)
        leg.request = leg.upload = Http2Upload(self, leg)
        return leg

    def retire(self) -> None:
        """Take no new legs; close behind those that run."""
        self._is_leaving = True
        self._close_if_done()

    def cut(self) -> None:
        """Drop the connection at once; its legs fail as it is lost."""
        self._is_leaving = True
        if self._pool is not None:
            self._pool.gone(self)
        if self._transport is not None:
            self._transport.abort()

    def sweep(self, now: float) -> None:
        """Fail legs whose time is up; look for a sign of life; close when idle."""
        for leg in list(self._legs.values()):
            if now >= leg.deadline:
                self._reset(leg, CANCEL)
                self._fail(leg, leg.late(self._message()))
        self._close_if_done()
        if self._pool is None:
            return
        patience = self._pool.worker.http_pool.pool_idle_timeout_secs
        if not self._legs and patience and now - self._idle_since >= patience:
            self.retire()
        elif self._pulse.is_lost(now):
            self._lose("keep-alive timed out")
        elif self._pulse.is_to_be_asked(now):
            self.calls.ping()
            self.out.mark()

    # -- asyncio's side --------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The worker accepted."""
        # uvloop's transports are no subclass of asyncio's.
        self._transport = self.out.transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        # At once: whoever dialled may have given up, and then uvloop closes the socket
        # before the next turn without telling anybody.
        self.out.flush()

    def data_received(self, data: bytes) -> None:
        """Frames of any streams; one delivery to each leg for one read."""
        pool, transport = self._pool, self._transport
        if pool is None or transport is None or transport.is_closing():
            return
        now = monotonic()
        self._pulse.heard(now)
        try:
            for frame in self._reader.feed(data, now):
                self.calls.receive(frame)
            if self._reader.more_bytes and not self._is_reading_on:
                self._is_reading_on = True
                transport.pause_reading()
                pool.turns.wait(self._reader.more_bytes, self._read_on)
            if self.out.is_full:
                if transport.get_write_buffer_size() > _MAX_UNREAD_BYTES:
                    raise Http2Violation(ENHANCE_YOUR_CALM, "answers are not read")
        except Http2Violation as violation:
            self._pass_on()
            self._end(violation)
            return
        self._pass_on()
        if self.calls.has_queued:
            self.out.mark()
        self._close_if_done()

    def eof_received(self) -> bool:
        """The worker will send no more, nor read what it cannot answer."""
        self._lose("connection closed")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone: whatever ran on it has failed."""
        self._fail_all("connection closed")
        if self._pool is not None:
            self._pool.gone(self)
            self._pool = None
        self._transport = self.out.transport = None
        self.calls.close()

    def pause_writing(self) -> None:
        """The worker reads too slowly: hold whoever feeds its requests."""
        self.out.pause()
        for leg in list(self._legs.values()):
            leg.hold_request()

    def resume_writing(self) -> None:
        """There is room again."""
        self.out.is_full = False
        self.out.pump_all()
        for leg in list(self._legs.values()):
            leg.release_request()

    # -- the legs' side --------------------------------------------------------------

    def cancel(self, leg: Http2Leg) -> None:
        """Nobody wants the answer: end the stream, and nothing else."""
        self._reset(leg, CANCEL)
        self._forget(leg)
        self._close_if_done()

    def on_upload_failed(self, leg: Http2Leg, error: Exception) -> None:
        """A client sends no more: its worker must not take what it has for all."""
        self._reset(leg, CANCEL)
        if not isinstance(error, GatewayError):
            error = leg.lost(self._message(), "the upload broke off")
        self._fail(leg, error)
        self._close_if_done()

    # -- what the worker did ---------------------------------------------------------

    def on_fields(self, stream_id: int, fields: Headers, end: bool) -> None:
        """A response's head, or its trailers."""
        leg = self._legs.get(stream_id)
        if leg is not None:
            try:
                leg.take_fields(fields, end)
            except (BadMessage, ReplyBroken) as error:
                self._spoilt(leg, error)
            else:
                self._took(leg)

    def on_data(self, stream_id: int, data: bytes, end: bool) -> None:
        """Response body bytes."""
        leg = self._legs.get(stream_id)
        if leg is not None:
            try:
                leg.take_data(data, end)
            except (BadMessage, ReplyBroken) as error:
                self._spoilt(leg, error)
            else:
                self._took(leg)

    def on_reset(self, stream_id: int, code: int) -> None:
        """The worker ended a stream; a refused one it has not looked at."""
        leg = self._legs.get(stream_id)
        if leg is not None:
            if code == REFUSED_STREAM:
                self._most_streams = max(1, len(self._legs) - 1)
            cause = f"stream reset, code {code}"
            self._fail(leg, leg.lost(self._message(), cause))

    def on_room(self, stream_id: int) -> None:
        """The worker takes more of a request, or of all."""
        if stream_id:
            self.out.pump(stream_id)
        else:
            self.out.pump_all()

    def on_settings(self) -> None:
        """The worker said what it allows."""
        self._most_streams = MAX_STREAMS

    def on_goaway(self, last_stream_id: int) -> None:
        """The worker takes no new streams, and has not looked at those above."""
        self._is_leaving = True
        for stream_id, leg in list(self._legs.items()):
            if stream_id > last_stream_id:
                why = "the worker is going away"
                self._fail(leg, leg.lost(self._message(), why, SendUnseen))

    # -- inside ----------------------------------------------------------------------

    def _read_on(self) -> None:
        self._is_reading_on = False
        transport = self._transport
        if transport is not None and not transport.is_closing():
            transport.resume_reading()
            self.data_received(b"")

    def _begin(
        self, request: WorkerRequest, authority: bytes, deadline: float, end: bool
    ) -> Http2Leg:
        assert self._pool is not None
        stream_id = self.calls.next_stream_id()
        if stream_id >= _LAST_STREAM_ID:
            self._is_leaving = True
        leg = self._legs[stream_id] = Http2Leg(self, stream_id, deadline)
        fields = request_fields(request, authority, self._pool.scheme)
        self.out.send_head(stream_id, fields, end)
        return leg

    def _took(self, leg: Http2Leg) -> None:
        """A leg has something of this read."""
        self._touched.append(leg)
        if leg.is_received:
            if self._most_streams < MAX_STREAMS:
                self._most_streams += 1
            leg.detach()
            if leg.upload is not None:
                # Answered before it had read the request: the rest is not wanted.
                self._reset(leg, CANCEL)
            self._forget(leg)

    def _pass_on(self) -> None:
        touched = self._touched
        if len(touched) == 1:
            touched.pop().pass_on()
        elif touched:
            self._touched = []
            for leg in dict.fromkeys(touched):
                leg.pass_on()

    def _spoilt(self, leg: Http2Leg, error: BadMessage | ReplyBroken) -> None:
        """An answer turned out to be none: an error of its stream alone."""
        self._reset(leg, PROTOCOL_ERROR)
        if isinstance(error, BadMessage):
            self._fail(leg, self._malformed(error.reason))
        else:
            self._fail(leg, ReplyBroken(self._message(), error.cause))

    def _malformed(self, reason: str) -> ReplyMalformed:
        return ReplyMalformed(f"{self._message()}: {reason}", reason)

    def _reset(self, leg: Http2Leg, code: int) -> None:
        """End a stream from this side, if either half of it is open."""
        self.calls.reset_stream(leg.stream_id, code)
        self.out.mark()

    def _fail(self, leg: Http2Leg, error: GatewayError) -> None:
        self._legs.pop(leg.stream_id, None)
        leg.fall(error)
        self._forget(leg)

    def _forget(self, leg: Http2Leg) -> None:
        self._legs.pop(leg.stream_id, None)
        self.out.forget(leg.stream_id)
        upload, leg.upload = leg.upload, None
        if upload is not None:
            upload.drop()
        if not self._legs:
            self._idle_since = monotonic()

    def _fail_all(self, cause: str) -> None:
        self._pass_on()
        for leg in list(self._legs.values()):
            self._fail(leg, leg.lost(self._message(), cause))

    def _close_if_done(self) -> None:
        """Say goodbye when nothing runs, and nothing is to come."""
        pool, transport = self._pool, self._transport
        if self._legs or pool is None or transport is None:
            return
        if self._is_leaving or not pool.keeps_idle:
            self._say_goodbye(NO_ERROR)

    def _end(self, violation: Http2Violation) -> None:
        """The worker broke the protocol: nothing it says can be believed."""
        for leg in list(self._legs.values()):
            self._fail(leg, self._malformed(violation.reason))
        self._say_goodbye(violation.code)

    def _say_goodbye(self, code: int) -> None:
        pool, transport = self._pool, self._transport
        self._is_leaving = True
        if pool is not None:
            pool.gone(self)
        if transport is not None and not transport.is_closing():
            # The worker opened no streams.
            self.out.send_raw(goaway(0, code))
            if transport.get_write_buffer_size():
                transport.abort()  # a close would wait for it to read
            else:
                transport.close()

    def _lose(self, cause: str) -> None:
        """Nobody is there any more."""
        self._fail_all(cause)
        self.cut()

    def _message(self) -> str:
        assert self._pool is not None
        return self._pool.failure()
