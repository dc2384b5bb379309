"""The calling side of HTTP/2, frame by frame (section numbers: RFC 9113)."""

from __future__ import annotations

import pytest

from smgproxy.core.message import Headers
from smgproxy.wire.hpack import PlainEncoder
from smgproxy.wire.http2 import (
    COMPRESSION_ERROR,
    CONNECTION_WINDOW_BYTES,
    CONTINUATION,
    DATA,
    END_STREAM,
    FLOW_CONTROL_ERROR,
    FRAME_SIZE_ERROR,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PROTOCOL_ERROR,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    STREAM_CLOSED,
    WINDOW_UPDATE,
    FrameReader,
    Http2Violation,
)
from smgproxy.wire.http2_calling import CallingSide
from smgproxy.wire.http2_frames import encode_frame, encode_setting
from tests.wire.frames import SentFrame, frames_of

END_HEADERS = 0x4
REQUEST: Headers = [(b":method", b"GET"), (b":path", b"/")]
OK = PlainEncoder().encode([(b":status", b"200")])
EMPTY_SETTINGS = encode_frame(SETTINGS, 0, 0, b"")


class Told:
    """Remembers what it is told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_fields(self, stream_id: int, fields: Headers, end: bool) -> None:
        self.events.append(("fields", stream_id, [tuple(f) for f in fields], end))

    def on_data(self, stream_id: int, data: bytes, end: bool) -> None:
        self.events.append(("data", stream_id, data, end))

    def on_reset(self, stream_id: int, code: int) -> None:
        self.events.append(("reset", stream_id, code))

    def on_room(self, stream_id: int) -> None:
        self.events.append(("room", stream_id))

    def on_settings(self) -> None:
        self.events.append(("settings",))

    def on_goaway(self, last_stream_id: int) -> None:
        self.events.append(("goaway", last_stream_id))


class Side:
    """A calling side with streams 1 and 3 open, and the settings of the other side."""

    def __init__(self) -> None:
        self.told = Told()
        self.calls = CallingSide(self.told, 65536)
        self.reader = FrameReader(65536, 0.0, b"")
        self.opening = self.calls.data_to_send()
        self.feed(EMPTY_SETTINGS)
        for stream_id in (1, 3):
            self.calls.send_headers(stream_id, REQUEST)
        self.calls.data_to_send()
        self.told.events.clear()

    def feed(self, *frames: bytes) -> None:
        for frame in self.reader.feed(b"".join(frames), 0.0):
            self.calls.receive(frame)

    def sent(self) -> list[SentFrame]:
        """The frames that leave now."""
        return frames_of(self.calls.data_to_send())


@pytest.fixture
def side() -> Side:
    return Side()


def setting(name: int, value: int) -> bytes:
    return encode_frame(SETTINGS, 0, 0, encode_setting(name, value))


def window_update(stream_id: int, increment: int) -> bytes:
    return encode_frame(WINDOW_UPDATE, 0, stream_id, increment.to_bytes(4, "big"))


def test_it_begins_with_the_preface_its_settings_and_a_wide_window(side: Side) -> None:
    assert side.opening == (
        PREFACE
        + encode_frame(SETTINGS, 0, 0, encode_setting(2, 0) + encode_setting(6, 65536))
        + window_update(0, CONNECTION_WINDOW_BYTES - 65535)
    )


LARGE = (2**31 - 1).to_bytes(4, "big")
VIOLATIONS = {
    "6.1 DATA on stream 0": (PROTOCOL_ERROR, encode_frame(DATA, 0, 0, b"x")),
    "5.1 DATA of an idle stream": (PROTOCOL_ERROR, encode_frame(DATA, 0, 5, b"x")),
    "5.1 DATA of a server's stream": (PROTOCOL_ERROR, encode_frame(DATA, 0, 2, b"x")),
    "6.1 padding beyond DATA": (
        PROTOCOL_ERROR,
        encode_frame(DATA, PADDED, 1, b"\x05abcd"),
    ),
    "6.1 no pad length": (FRAME_SIZE_ERROR, encode_frame(DATA, PADDED, 1, b"")),
    "5.1 DATA behind END_STREAM": (
        STREAM_CLOSED,
        encode_frame(HEADERS, END_HEADERS | END_STREAM, 1, OK)
        + encode_frame(DATA, 0, 1, b"x"),
    ),
    "5.1 HEADERS behind END_STREAM": (
        STREAM_CLOSED,
        encode_frame(HEADERS, END_HEADERS | END_STREAM, 1, OK)
        + encode_frame(HEADERS, END_HEADERS, 1, OK),
    ),
    "6.9.1 DATA beyond the stream's window": (
        FLOW_CONTROL_ERROR,
        encode_frame(DATA, 0, 1, b"x" * 16000) * 5,
    ),
    "6.2 HEADERS on stream 0": (
        PROTOCOL_ERROR,
        encode_frame(HEADERS, END_HEADERS, 0, OK),
    ),
    "5.1.1 HEADERS of a stream nobody opened": (
        PROTOCOL_ERROR,
        encode_frame(HEADERS, END_HEADERS, 7, OK),
    ),
    "5.1.1 HEADERS of a server's stream": (
        PROTOCOL_ERROR,
        encode_frame(HEADERS, END_HEADERS, 2, OK),
    ),
    "6.2 padding beyond HEADERS": (
        PROTOCOL_ERROR,
        encode_frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + OK),
    ),
    "6.2 HEADERS shorter than its priority": (
        FRAME_SIZE_ERROR,
        encode_frame(HEADERS, END_HEADERS | 0x20, 1, b"\0\0"),
    ),
    "4.3 a header block that is none": (
        COMPRESSION_ERROR,
        encode_frame(HEADERS, END_HEADERS, 1, b"\xff\xff\xff\xff\xff"),
    ),
    "6.10 CONTINUATION of nothing": (
        PROTOCOL_ERROR,
        encode_frame(CONTINUATION, END_HEADERS, 1, OK),
    ),
    "4.3 DATA inside a header block": (
        PROTOCOL_ERROR,
        encode_frame(HEADERS, 0, 1, OK) + encode_frame(DATA, 0, 3, b"x"),
    ),
    "6.4 RST_STREAM of 3 bytes": (
        FRAME_SIZE_ERROR,
        encode_frame(RST_STREAM, 0, 1, b"\0\0\0"),
    ),
    "6.4 RST_STREAM on stream 0": (
        PROTOCOL_ERROR,
        encode_frame(RST_STREAM, 0, 0, bytes(4)),
    ),
    "6.4 RST_STREAM of an idle stream": (
        PROTOCOL_ERROR,
        encode_frame(RST_STREAM, 0, 9, bytes(4)),
    ),
    "6.5 SETTINGS on a stream": (PROTOCOL_ERROR, encode_frame(SETTINGS, 0, 1, b"")),
    "6.5 SETTINGS of 5 bytes": (
        FRAME_SIZE_ERROR,
        encode_frame(SETTINGS, 0, 0, b"x" * 5),
    ),
    "6.5 an ACK that says something": (
        FRAME_SIZE_ERROR,
        encode_frame(SETTINGS, 1, 0, bytes(6)),
    ),
    "6.5.2 ENABLE_PUSH by a server": (PROTOCOL_ERROR, setting(2, 1)),
    "6.5.2 INITIAL_WINDOW_SIZE of 2^31": (FLOW_CONTROL_ERROR, setting(4, 2**31)),
    "6.5.2 MAX_FRAME_SIZE of 16383": (PROTOCOL_ERROR, setting(5, 16383)),
    "6.5.2 MAX_FRAME_SIZE of 2^24": (PROTOCOL_ERROR, setting(5, 2**24)),
    "6.9.2 INITIAL_WINDOW_SIZE that overflows a stream": (
        FLOW_CONTROL_ERROR,
        window_update(1, 2**31 - 65536) + setting(4, 65536 + 1),
    ),
    "6.6 PUSH_PROMISE": (
        PROTOCOL_ERROR,
        encode_frame(PUSH_PROMISE, END_HEADERS, 1, b"\0\0\0\x02" + OK),
    ),
    "6.7 PING on a stream": (PROTOCOL_ERROR, encode_frame(PING, 0, 1, bytes(8))),
    "6.7 PING of 7 bytes": (FRAME_SIZE_ERROR, encode_frame(PING, 0, 0, bytes(7))),
    "6.8 GOAWAY on a stream": (PROTOCOL_ERROR, encode_frame(GOAWAY, 0, 1, bytes(8))),
    "6.8 GOAWAY of 7 bytes": (FRAME_SIZE_ERROR, encode_frame(GOAWAY, 0, 0, bytes(7))),
    "6.9 WINDOW_UPDATE of 3 bytes": (
        FRAME_SIZE_ERROR,
        encode_frame(WINDOW_UPDATE, 0, 1, bytes(3)),
    ),
    "6.9 WINDOW_UPDATE of 0": (PROTOCOL_ERROR, window_update(1, 0)),
    "6.9 WINDOW_UPDATE of an idle stream": (PROTOCOL_ERROR, window_update(5, 1)),
    "6.9.1 a stream's window beyond 2^31-1": (
        FLOW_CONTROL_ERROR,
        window_update(1, 2**31 - 1),
    ),
    "6.9.1 the connection's window beyond 2^31-1": (
        FLOW_CONTROL_ERROR,
        window_update(0, 2**31 - 1),
    ),
    "4.2 a frame beyond 16 KiB": (
        FRAME_SIZE_ERROR,
        encode_frame(DATA, 0, 1, b"x" * 16385),
    ),
}


@pytest.mark.parametrize(("code", "frames"), VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_broken_rule_ends_the_connection(
    code: int, frames: bytes, side: Side
) -> None:
    with pytest.raises(Http2Violation) as caught:
        side.feed(frames)
    assert caught.value.code == code


@pytest.mark.parametrize("first", [PING, HEADERS, DATA, SETTINGS])
def test_the_first_frame_is_settings_and_no_ack(first: int) -> None:
    reader = FrameReader(65536, 0.0, b"")
    with pytest.raises(Http2Violation) as caught:
        list(reader.feed(encode_frame(first, 1, 0, b""), 0.0))
    assert caught.value.code == PROTOCOL_ERROR


IGNORED = {
    "6.3 PRIORITY": encode_frame(PRIORITY, 0, 1, bytes(5)),
    "4.1 a frame of an unknown type": encode_frame(0xFA, 0xFF, 77, b"x"),
    "6.5.2 an unknown setting": setting(0x99, 7),
    "6.7 an answer to a PING": encode_frame(PING, 1, 0, bytes(8)),
    "6.5 an ACK": encode_frame(SETTINGS, 1, 0, b""),
}


@pytest.mark.parametrize("frames", IGNORED.values(), ids=IGNORED)
def test_what_says_nothing_is_ignored(frames: bytes, side: Side) -> None:
    side.feed(frames)
    assert {name for name, *_ in side.told.events} <= {"settings", "room"}


def test_settings_and_pings_are_answered(side: Side) -> None:
    side.feed(EMPTY_SETTINGS, encode_frame(PING, 0, 0, b"12345678"))
    assert side.sent() == [(SETTINGS, 1, 0, b""), (PING, 1, 0, b"12345678")]


def test_a_block_may_come_in_pieces_padded_and_with_a_priority(side: Side) -> None:
    head = encode_frame(HEADERS, PADDED | 0x20, 1, b"\x02" + bytes(5) + OK[:1] + b"xx")
    side.feed(head, encode_frame(CONTINUATION, END_HEADERS, 1, OK[1:]))
    assert side.told.events == [("fields", 1, [(b":status", b"200")], False)]


def test_padding_counts_for_the_windows_and_is_no_body(side: Side) -> None:
    side.feed(encode_frame(DATA, PADDED, 1, b"\x03abcxxx"))
    assert side.told.events == [("data", 1, b"abc", False)]
    assert side.calls.window(1) == 65535 - 7


def test_frames_of_a_stream_that_is_over_are_dropped_and_its_head_is_read(
    side: Side,
) -> None:
    """What it adds to the table, later heads refer to."""
    side.calls.reset_stream(1, 8)
    added = b"\x88\x40\x01a\x01b"  # with incremental indexing
    side.feed(
        encode_frame(HEADERS, END_HEADERS, 1, added),
        encode_frame(DATA, 0, 1, b"x"),
        window_update(1, 5),
        encode_frame(RST_STREAM, 0, 1, bytes(4)),
        encode_frame(HEADERS, END_HEADERS, 3, b"\x88\xbe"),
    )
    expected = [(b":status", b"200"), (b"a", b"b")]
    assert side.told.events == [("fields", 3, expected, False)]


def test_the_connection_is_credited_for_what_is_dropped_too(side: Side) -> None:
    side.calls.reset_stream(1, 8)
    side.calls.data_to_send()
    for _ in range(300):
        side.feed(encode_frame(DATA, 0, 1, b"x" * 16384))
    credited = [
        int.from_bytes(payload, "big")
        for kind, _, stream_id, payload in side.sent()
        if (kind, stream_id) == (WINDOW_UPDATE, 0)
    ]
    assert sum(credited) >= 300 * 16384 - CONNECTION_WINDOW_BYTES // 4


def test_a_window_may_become_less_than_nothing(side: Side) -> None:
    side.calls.send_data(1, b"x" * 1000)
    side.feed(setting(4, 100))
    assert side.calls.local_flow_control_window(1) == 100 - 1000
    side.feed(window_update(1, 950))
    assert side.calls.local_flow_control_window(1) == 50


def test_a_head_longer_than_a_frame_goes_on_in_continuations(side: Side) -> None:
    side.calls.send_headers(5, [*REQUEST, (b"a", b"x" * 40_000)], end_stream=True)
    frames = side.sent()
    assert [kind for kind, *_ in frames] == [HEADERS, CONTINUATION, CONTINUATION]
    assert [flags for _, flags, *_ in frames] == [END_STREAM, 0, END_HEADERS]


def test_the_streams_it_may_open_are_as_many_as_it_is_told() -> None:
    calls = CallingSide(Told(), 65536)
    reader = FrameReader(65536, 0.0, b"")
    assert calls.max_streams == 100
    for said, most in [(b"", 2**31 - 1), (encode_setting(3, 7), 7), (b"", 7)]:
        for frame in reader.feed(encode_frame(SETTINGS, 0, 0, said), 0.0):
            calls.receive(frame)
        assert calls.max_streams == most


def test_nothing_is_kept_of_a_stream_that_is_over(side: Side) -> None:
    side.calls.send_data(1, b"", True)
    side.feed(encode_frame(HEADERS, END_HEADERS | END_STREAM, 1, OK))
    side.calls.send_data(3, b"", True)
    side.feed(encode_frame(RST_STREAM, 0, 3, bytes(4)))
    assert not side.calls._streams  # noqa: SLF001
