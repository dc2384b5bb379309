"""h2's own client against a connection, in any order of what either may do."""

from __future__ import annotations

from collections.abc import Callable

import h2.events as events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.errors import UpstreamError
from smgproxy.core.exchange import Exchange, Phase, Verdict
from smgproxy.core.flow import Hold, Source
from tests.downstream.h2_stage import REQUEST, Http2Room
from tests.downstream.stage import begin

_CYCLE = bytes(range(251))
AMPLE = 2**24
_CLIENT = H2Configuration(client_side=True, header_encoding=None)


def pattern(seed: int, at: int, size: int) -> bytes:
    """Bytes that differ from those of other streams and other places."""
    start = (seed * 31 + at) % 251
    return (_CYCLE * (size // 251 + 2))[start : start + size]


class Asked:
    """One stream, as its client and as its exchange see it."""

    def __init__(self, stream_id: int, exchange: Exchange, index: int) -> None:
        self.stream_id = stream_id
        self.exchange = exchange
        self.index = index
        self.sent = 0  # of the body, by the client
        self.is_sent = False
        self.source: Source | None = None
        self.said = 0  # of the response, by its source
        self.is_said = self.is_broken = False
        self.is_early = False  # the response ended before the request
        self.got = b""  # of the response, by the client
        self.is_got = self.is_taken_back = False
        self.reset_by: int | None = None  # the gateway's error code


class Conversation:
    """A client and a gateway, and who runs the exchanges."""

    def __init__(self, step: int) -> None:
        self.step = step  # how long the client's reads and writes are
        self.room = Http2Room(b"")
        self.client = H2Connection(_CLIENT)
        self.asked: list[Asked] = []
        self.by_stream: dict[int, Asked] = {}
        self.pings = self.pongs = 0
        self.client.initiate_connection()
        self.carry()

    def carry(self) -> None:
        """Bytes both ways, until nothing moves."""
        for _ in range(10_000):
            told = self.client.data_to_send()
            step = max(self.step, len(told) // 200)
            self.room.says(*(told[i : i + step] for i in range(0, len(told), step)))
            self.room.turn()
            answered = self.room.transport.take_sent()
            for event in self.client.receive_data(answered) if answered else ():
                self._hear(event)
            if not told and not answered:
                return
        raise AssertionError("they never come to rest")

    def _hear(self, event: events.Event) -> None:
        if isinstance(event, events.DataReceived):
            self.by_stream[event.stream_id].got += event.data
        elif isinstance(event, events.StreamEnded):
            self.by_stream[event.stream_id].is_got = True
        elif isinstance(event, events.StreamReset):
            assert event.remote_reset
            self.by_stream[event.stream_id].reset_by = int(event.error_code)
        elif isinstance(event, events.PingAckReceived):
            self.pongs += 1
        assert not isinstance(event, events.ConnectionTerminated)

    # -- what may happen ---------------------------------------------------------------

    def open(self, _: int, size: int) -> None:
        """A request, with a body to come or without."""
        stream_id = self.client.get_next_available_stream_id()
        is_whole = size % 3 == 0
        self.client.send_headers(stream_id, REQUEST, end_stream=is_whole)
        self.carry()
        asked = Asked(stream_id, self.room.exchanges[-1], len(self.asked))
        asked.is_sent = is_whole
        self.asked.append(asked)
        self.by_stream[stream_id] = asked

    def pick(self, number: int, which: Callable[[Asked], bool]) -> Asked | None:
        """One of the streams that are still open on the client's side."""
        found = [
            asked
            for asked in self.asked
            if not asked.is_taken_back and asked.reset_by is None and which(asked)
        ]
        return found[number % len(found)] if found else None

    def upload(self, number: int, size: int) -> None:
        """Some of a body, as far as its window reaches."""
        asked = self.pick(number, lambda each: not each.is_sent)
        if asked is None:
            return
        window = self.client.local_flow_control_window(asked.stream_id)
        size = min(size, window, self.client.max_outbound_frame_size)
        self.client.send_data(
            asked.stream_id, pattern(asked.index, asked.sent, size), pad_length=None
        )
        asked.sent += size
        self.carry()

    def finish_upload(self, number: int, _: int) -> None:
        """The end of a body."""
        asked = self.pick(number, lambda each: not each.is_sent)
        if asked is not None:
            self.client.end_stream(asked.stream_id)
            asked.is_sent = True
            self.carry()

    def take_back(self, number: int, _: int) -> None:
        """RST_STREAM."""
        asked = self.pick(number, lambda each: not (each.is_sent and each.is_got))
        if asked is not None:
            self.client.reset_stream(asked.stream_id, ErrorCodes.CANCEL)
            asked.is_taken_back = True
            self.carry()

    def ping(self, *_: int) -> None:
        """PING."""
        self.pings += 1
        self.client.ping(b"12345678")
        self.carry()

    def widen(self, number: int, size: int) -> None:
        """WINDOW_UPDATE of a stream."""
        asked = self.pick(number, lambda each: not each.is_got)
        if asked is not None:
            self.client.increment_flow_control_window(size + 1, asked.stream_id)
            self.carry()

    def widen_all(self, _: int, size: int) -> None:
        """WINDOW_UPDATE of the connection."""
        self.client.increment_flow_control_window(size + 1)
        self.carry()

    def change_window(self, _: int, size: int) -> None:
        """SETTINGS with another initial window."""
        self.client.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: size})
        self.carry()

    def answer(self, number: int, size: int) -> None:
        """Some of a response."""
        asked = self.pick(number, lambda each: not each.is_said)
        if asked is None:
            return
        if asked.source is None:
            asked.source = begin(asked.exchange)
        asked.source.deliver(pattern(~asked.index, asked.said, size))
        asked.said += size
        self.carry()

    def finish_answer(self, number: int, _: int) -> None:
        """The end of a response."""
        asked = self.pick(number, lambda each: not each.is_said)
        if asked is not None:
            window = self.client.remote_flow_control_window(asked.stream_id)
            if window < 0:
                # h2 takes DATA of nothing for too much then; RFC 9113 section 6.9.1
                # lets it pass.
                self.client.increment_flow_control_window(-window, asked.stream_id)
                self.carry()
            if asked.source is None:
                asked.source = begin(asked.exchange)
            asked.is_said = True
            asked.is_early = not asked.is_sent
            asked.source.deliver(b"", True)
            self.carry()

    def break_answer(self, number: int, _: int) -> None:
        """A response that is not to be completed."""
        asked = self.pick(
            number, lambda each: not each.is_said and each.source is not None
        )
        if asked is not None and asked.source is not None:
            asked.is_said = asked.is_broken = True
            asked.source.fail(UpstreamError("broken"))
            self.carry()

    def hold(self, number: int, _: int) -> None:
        """Whoever takes a body is full."""
        if (asked := self.pick(number, lambda each: True)) is not None:
            asked.exchange.request.hold(Hold.SINK_FULL)

    def release(self, number: int, _: int) -> None:
        """And takes it again."""
        if (asked := self.pick(number, lambda each: True)) is not None:
            asked.exchange.request.release(Hold.SINK_FULL)
            self.carry()

    def stall(self, *_: int) -> None:
        """The client's socket takes nothing."""
        self.room.transport.peer_stalls()

    def read(self, *_: int) -> None:
        """And takes all again."""
        self.room.transport.peer_reads()
        self.carry()

    # -- the end -----------------------------------------------------------------------

    def finish(self) -> None:
        """Everybody does what is left to do."""
        self.read()
        self.change_window(0, AMPLE)
        self.widen_all(0, AMPLE)
        for asked in self.asked:
            asked.exchange.request.release(Hold.SINK_FULL)
        self.carry()
        for _ in range(len(self.asked)):
            self.finish_upload(0, 0)
            self.finish_answer(0, 0)

    def check(self) -> None:
        """Every message came whole, or was ended as it had to be."""
        for asked, taken in zip(self.asked, self.room.bodies, strict=True):
            assert pattern(asked.index, 0, asked.sent).startswith(taken.body)
            assert pattern(~asked.index, 0, asked.said).startswith(asked.got)
            if asked.is_taken_back:
                # What is broken is for whoever broke it to end.
                assert asked.is_broken or asked.exchange.phase == Phase.DONE
                continue
            if asked.is_broken:
                assert (asked.is_got, asked.reset_by) == (False, 2)
                continue
            assert asked.is_got
            assert len(asked.got) == asked.said
            assert asked.exchange.phase == Phase.DONE
            assert asked.exchange.verdict is not Verdict.CLIENT_GONE
            if asked.is_early:
                # Its client may have ended the upload before it heard of that.
                assert asked.reset_by in (None, 0)
            else:
                assert asked.reset_by is None
                assert taken.is_whole
                assert len(taken.body) == asked.sent
        assert self.pongs == self.pings
        connection = self.room.connection
        assert not connection._streams
        assert not connection.out._blocked
        assert self.room.transport.get_write_buffer_size() == 0
        assert set(self.room.listener.http2.errors) <= {0, 2}


DEEDS = [
    *(Conversation.open, Conversation.upload, Conversation.finish_upload),
    *(Conversation.take_back, Conversation.ping, Conversation.widen),
    *(Conversation.widen_all, Conversation.change_window, Conversation.answer),
    *(Conversation.finish_answer, Conversation.break_answer, Conversation.hold),
    *(Conversation.release, Conversation.stall, Conversation.read),
]
sizes = st.sampled_from([0, 1, 2, 100, 16384, 16385, 70_000]) | st.integers(0, 400)
deeds = st.lists(
    st.tuples(
        st.sampled_from([*DEEDS, *[Conversation.open] * 3]), st.integers(0, 9), sizes
    ),
    max_size=40,
)


@given(st.sampled_from([1, 7, 100, 100_000]), sizes, deeds)
def test_every_message_comes_whole_or_is_reset(
    step: int, window: int, done: list[tuple[Callable[..., None], int, int]]
) -> None:
    talk = Conversation(step)
    talk.change_window(0, window)
    for deed, number, size in done:
        deed(talk, number, size)
    talk.finish()
    talk.check()
