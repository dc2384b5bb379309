"""A client's source joined to a worker's connection, in any order of what can happen.

The worker gets the client's bytes in order, and a last chunk only behind all of them;
the client is paused while the worker is full, and never left paused.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from smgproxy.core.errors import BodyStalled, UpstreamError
from smgproxy.core.flow import Hold
from smgproxy.core.message import WorkerRequest
from smgproxy.upstream.http1 import HIGH_WATER, Http1Leg
from smgproxy.wire.http1 import ChunkedDecoder
from tests.core.scripted import ScriptedSource
from tests.upstream.stage import DEADLINE, OK, STREAM, FakeLoop, Line

UNSIZED = WorkerRequest(b"POST", b"/v1/x", [])
PIECES = st.one_of(
    st.binary(max_size=6),
    st.sampled_from([b"x" * HIGH_WATER, b"y" * (HIGH_WATER // 3)]),
)
SIZES = st.sampled_from([1, 100, HIGH_WATER, 4 * HIGH_WATER])


class Uploading(RuleBasedStateMachine):
    """A client that sends, a worker that reads when it likes, and either's faults."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = FakeLoop()
        self.line = Line(self.loop)
        self.transport = self.line.transport
        self.source = ScriptedSource()
        self.given = b""
        self.is_whole = False
        self.is_over = False  # answered, failed or cut: nothing is owed any more

    @initialize(early=PIECES)
    def begin(self, early: bytes) -> None:
        self.leg: Http1Leg = self.line.connection.upload(UNSIZED, b"w", DEADLINE)
        self._deliver(early, False)
        assert self.leg.request is not None
        self.source.join(self.leg.request)
        self.leg.request.flush()

    def teardown(self) -> None:
        self.loop.close()

    # -- the client ------------------------------------------------------------------

    @precondition(lambda self: not self.source.is_paused)
    @rule(data=PIECES, end=st.booleans())
    def deliver(self, data: bytes, end: bool) -> None:
        self._deliver(data, end)

    @rule(data=PIECES)
    def deliver_what_was_read_before_the_pause(self, data: bytes) -> None:
        self._deliver(data, False)

    @rule()
    def hold(self) -> None:
        self.source.hold(Hold.PIPELINED)

    @rule()
    def release(self) -> None:
        self.source.release(Hold.PIPELINED)

    @precondition(lambda self: not self.source.is_held)
    @rule()
    def stall(self) -> None:
        if not self.is_whole:
            self.is_over = True
        self.source.fail(BodyStalled(1))

    # -- the worker ------------------------------------------------------------------

    @rule(room=SIZES)
    def stop_reading(self, room: int) -> None:
        self.transport.peer_stalls(room)

    @rule(size=st.none() | SIZES)
    def read(self, size: int | None) -> None:
        self.transport.peer_reads(size)

    @precondition(lambda self: not self.is_over and not self.leg.head.done())
    @rule()
    def answer(self) -> None:
        self.is_over = True
        self.line.says(OK)

    @precondition(lambda self: not self.is_over and not self.leg.head.done())
    @rule()
    def begin_to_answer(self) -> None:
        self.line.says(STREAM)

    @precondition(lambda self: not self.transport.is_closing())
    @rule()
    def reset(self) -> None:
        self.is_over = True
        self.transport.peer_resets()

    @precondition(lambda self: not self.is_over)
    @rule()
    def abort(self) -> None:
        self.is_over = True
        self.leg.abort(UpstreamError("nobody wants it"))

    @rule()
    def turn(self) -> None:
        self.transport.turn()

    # -- what always holds -----------------------------------------------------------

    @invariant()
    def the_worker_gets_the_clients_bytes_in_order(self) -> None:
        body, is_ended = self._received()
        assert self.given.startswith(body)
        assert not is_ended or (self.is_whole and body == self.given)

    @invariant()
    def what_fits_is_not_kept_back(self) -> None:
        is_free = not self.source.is_held and not self.is_over
        if is_free and not self.transport.get_write_buffer_size():
            assert self._received() == (self.given, self.is_whole)

    @invariant()
    def a_full_worker_pauses_its_client(self) -> None:
        if self.transport.is_writing_paused and not self.is_over and not self.is_whole:
            assert self.source.is_paused

    @invariant()
    def a_client_is_not_left_paused(self) -> None:
        if self.is_over or not self.transport.is_writing_paused:
            if not self.source.is_held or self.source.aborted_with:
                assert not self.source.is_paused

    @invariant()
    def a_connection_with_half_a_request_is_not_kept(self) -> None:
        if self.line.state == "idle":
            assert self._received() == (self.given, True)

    # -- inside ----------------------------------------------------------------------

    def _deliver(self, data: bytes, end: bool) -> None:
        if not self.source.is_ended:
            self.given += data
            self.is_whole = end
        self.source.deliver(data, end)

    def _received(self) -> tuple[bytes, bool]:
        decoder = ChunkedDecoder(1024)
        body, _ = decoder.feed(self.transport.sent.partition(b"\r\n\r\n")[2])
        return body, decoder.is_ended


TestUploading = Uploading.TestCase
