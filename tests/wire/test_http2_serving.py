"""The serving side of HTTP/2: what it does beside h2 is what h2 would have done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from h2.exceptions import ProtocolError
from h2.stream import StreamState
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.message import Headers
from smgproxy.wire.hpack import PlainEncoder
from smgproxy.wire.http2 import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    HEADERS,
    PADDED,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    STREAM_WINDOW_BYTES,
    WINDOW_UPDATE,
    Frame,
    FrameReader,
    Http2Violation,
)
from smgproxy.wire.http2_frames import encode_frame, encode_setting
from smgproxy.wire.http2_serving import ServingSide
from tests.wire.frames import SentFrame, frames_of

REQUEST: Headers = [(b":method", b"POST"), (b":path", b"/a")]
BLOCK = PlainEncoder().encode(REQUEST)
WHOLE = END_HEADERS | END_STREAM
HELLO = PREFACE + encode_frame(SETTINGS, 0, 0, b"")


class Told:
    """Remembers what it is told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_request(self, stream_id: int, fields: Headers, end: bool) -> None:
        self.events.append(("request", stream_id, [tuple(f) for f in fields], end))

    def on_data(self, stream_id: int, data: bytes, size: int, end: bool) -> None:
        self.events.append(("data", stream_id, data, size, end))

    def on_trailers(self, stream_id: int, fields: Headers) -> None:
        self.events.append(("trailers", stream_id, [tuple(f) for f in fields]))

    def on_reset(self, stream_id: int, code: int, is_theirs: bool) -> None:
        self.events.append(("reset", stream_id, code, is_theirs))

    def on_room(self, stream_id: int) -> None:
        self.events.append(("room", stream_id))

    def on_settings(self) -> None:
        self.events.append(("settings",))


class AllThroughH2(ServingSide):
    """Leaves every frame that comes to h2."""

    def receive(self, frame: Frame) -> None:
        self._has_h2_queued = True
        for event in self._h2.receive_data(frame.data):
            self._tell(event)


class Served:
    """A serving side whose client's SETTINGS came, and what it was told since."""

    def __init__(self, kind: Callable[..., ServingSide] = ServingSide) -> None:
        self.told = Told()
        self.side = kind(self.told, 100, 65536)
        self.reader = FrameReader(65536, 0.0)
        self.says(HELLO)
        self.opening = self.side.data_to_send()
        self.told.events.clear()

    def says(self, data: bytes) -> None:
        """The client sends."""
        for frame in self.reader.feed(data, 0.0):
            self.side.receive(frame)

    def sent(self) -> list[SentFrame]:
        """The frames that leave now."""
        return frames_of(self.side.data_to_send())


@pytest.fixture
def served() -> Served:
    return Served()


def asks(stream_id: int, flags: int = WHOLE) -> bytes:
    return encode_frame(HEADERS, flags, stream_id, BLOCK)


def test_settings_leave_first_whatever_is_answered_before_the_first_write() -> None:
    side = ServingSide(Told(), 100, 65536)
    side.receive(Frame(HEADERS, WHOLE, 1, asks(1)))
    side.send_headers(1, [(b":status", b"431")], end_stream=True)
    assert side.data_to_send()[3] == SETTINGS


def test_an_answer_follows_the_ack_of_the_settings_it_makes_use_of(
    served: Served,
) -> None:
    served.says(encode_frame(SETTINGS, 0, 0, encode_setting(4, 100_000)) + asks(1))
    served.side.send_headers(1, [(b":status", b"200")])
    served.side.send_data(1, b"x")
    kinds = [(kind, flags) for kind, flags, _, _ in served.sent()]
    assert kinds == [(SETTINGS, ACK), (HEADERS, END_HEADERS), (DATA, 0)]


def test_a_reset_follows_the_answer_that_was_queued_before_it(served: Served) -> None:
    served.says(asks(1, END_HEADERS))
    served.side.send_headers(1, [(b":status", b"413")], end_stream=True)
    served.side.reset_stream(1, 0)
    assert [kind for kind, *_ in served.sent()] == [HEADERS, RST_STREAM]


def test_a_head_longer_than_a_frame_goes_on_in_continuations(served: Served) -> None:
    served.says(asks(1))
    served.side.send_headers(1, [(b"x-long", b"v" * 40_000)], end_stream=True)
    frames = served.sent()
    assert [frame[:2] for frame in frames] == [
        (HEADERS, END_STREAM),
        (CONTINUATION, 0),
        (CONTINUATION, END_HEADERS),
    ]
    assert max(len(payload) for *_, payload in frames) == 16384


def test_what_is_sent_is_taken_from_the_windows_of_both(served: Served) -> None:
    served.says(asks(1) + asks(3))
    window = served.side.local_flow_control_window
    served.side.send_data(1, b"x" * 1000)
    assert (window(1), window(3)) == (64535, 64535)
    served.says(encode_frame(WINDOW_UPDATE, 0, 0, b"\0\0\x10\0"))
    assert (window(1), window(3)) == (64535, 65535)


@pytest.mark.parametrize("has_body", [False, True])
def test_a_stream_is_over_when_both_halves_have_ended(
    has_body: bool, served: Served
) -> None:
    served.says(asks(1) + asks(3))
    served.side.send_headers(3, [(b":status", b"200")], end_stream=not has_body)
    if has_body:
        served.side.send_data(3, b"", end_stream=True)
    assert served.side._h2.open_inbound_streams == 1


@pytest.mark.parametrize("pad", [0, 1])
def test_more_than_the_window_of_a_stream_ends_the_connection(
    pad: int, served: Served
) -> None:
    served.says(asks(1) + asks(3, END_HEADERS))
    piece = encode_frame(DATA, 0, 3, b"x" * 16384)
    served.says(piece * 3)
    served.says(encode_frame(DATA, 0, 3, b"x" * (16383 - pad)))
    with pytest.raises(Http2Violation) as caught:
        served.says(encode_frame(DATA, PADDED, 3, b"\0" * (1 + pad)))
    assert caught.value.code == FLOW_CONTROL_ERROR
    assert STREAM_WINDOW_BYTES == 65535


def test_data_behind_the_end_of_a_request_ends_its_stream(served: Served) -> None:
    served.says(asks(1) + asks(3) + encode_frame(DATA, 0, 3, b"x"))
    assert served.told.events[-1] == ("reset", 3, STREAM_CLOSED, False)


def test_what_is_kept_of_streams_that_are_over_does_not_grow(served: Served) -> None:
    for stream_id in range(1, 6001, 2):
        served.says(asks(stream_id))
        served.side.send_headers(stream_id, [(b":status", b"200")], end_stream=True)
    assert len(served.side._h2.streams) + len(served.side._h2._closed_streams) < 1100


def test_other_windows_are_not_for_streams_that_are_over(served: Served) -> None:
    served.says(asks(1) + encode_frame(WINDOW_UPDATE, 0, 1, b"\x7f\xff\0\0"))
    served.side.send_headers(1, [(b":status", b"200")], end_stream=True)
    served.says(encode_frame(SETTINGS, 0, 0, encode_setting(4, 70_000)))
    assert served.told.events[-1] == ("settings",)


# -- what h2 would have done ---------------------------------------------------------

streams = st.sampled_from([1, 1, 3, 3, 5, 7])
bodies = st.sampled_from([b"", b"x", b"y" * 3000, b"\x02z\0\0", b"\xff"])
incoming = st.one_of(
    st.builds(
        encode_frame,
        st.just(HEADERS),
        st.sampled_from([END_HEADERS, WHOLE, WHOLE, 0]),
        st.sampled_from([1, 3, 5, 7, 9, 11, 6]),
        st.sampled_from([BLOCK, BLOCK, b"", b"\x82\x40\1a\1b", b"\xbe"]),
    ),
    st.builds(
        encode_frame,
        st.just(DATA),
        st.sampled_from([0, END_STREAM, PADDED, PADDED | END_STREAM]),
        streams,
        bodies,
    ),
    st.builds(
        encode_frame,
        st.just(CONTINUATION),
        st.sampled_from([0, END_HEADERS]),
        streams,
        st.just(b""),
    ),
    st.builds(encode_frame, st.just(RST_STREAM), st.just(0), streams, st.just(b"abcd")),
    st.builds(
        encode_frame,
        st.just(WINDOW_UPDATE),
        st.just(0),
        st.sampled_from([0, 1, 3, 5, 7]),
        st.sampled_from([b"\0\0\0\1", b"\0\1\0\0", b"\x7f\xff\xff\xff"]),
    ),
    st.builds(
        lambda value: encode_frame(SETTINGS, 0, 0, encode_setting(4, value)),
        st.sampled_from([0, 100, 70_000]),
    ),
)
outgoing = st.tuples(st.sampled_from(["head", "end", "data", "reset"]), streams)


def answers(served: Served, deed: str, stream_id: int) -> None:
    """Something that the gateway does, if that stream was opened and lives."""
    side = served.side
    stream = side._streams.get(stream_id)
    if stream is None or not stream.open:
        return
    if deed == "reset":
        side.reset_stream(stream_id, 8)
    elif stream.state_machine.state is StreamState.HALF_CLOSED_LOCAL:
        return
    elif deed == "data":
        if side.local_flow_control_window(stream_id) > 0:
            side.send_data(stream_id, b"d")
    else:
        fields = [(b":status", b"200"), (b"x-a", b"b")]
        side.send_headers(stream_id, fields, end_stream=deed == "end")


def outcome(served: Served, step: bytes | tuple[str, int]) -> int | None:
    """Take one step; the error that ends the connection, if any."""
    try:
        if isinstance(step, bytes):
            served.says(step)
        else:
            answers(served, *step)
    except Http2Violation as violation:
        return violation.code
    except ProtocolError as error:
        return int(error.error_code)
    return None


def windows(served: Served) -> list[object]:
    """What may be sent on the streams that live, and what may still come."""
    h2 = served.side._h2
    return [
        h2._inbound_flow_control_window_manager.current_window_size,
        h2.outbound_flow_control_window,
        *(
            (
                stream_id,
                stream.inbound_flow_control_window,
                stream.outbound_flow_control_window,
            )
            for stream_id, stream in h2.streams.items()
            if not stream.closed
        ),
    ]


@given(st.lists(st.one_of(incoming, incoming, outgoing), max_size=30))
def test_what_does_not_pass_h2_is_what_h2_would_have_made_of_it(
    steps: list[bytes | tuple[str, int]],
) -> None:
    ours, theirs = Served(), Served(AllThroughH2)
    for step in [asks(1, END_HEADERS), asks(3, END_HEADERS), *steps]:
        code = outcome(theirs, step)
        assert outcome(ours, step) == code
        assert ours.told.events == theirs.told.events
        if code is not None:
            return
        assert ours.sent() == theirs.sent()
        assert windows(ours) == windows(theirs)
        assert ours.side.last_stream_id == theirs.side.last_stream_id
