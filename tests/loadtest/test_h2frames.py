"""As much of HTTP/2 as the load tools speak."""

import hpack
import pytest

from loadtest.tools.h2frames import (
    ACK,
    CANCEL,
    DATA,
    END_HEADERS,
    END_STREAM,
    FIRST_WINDOW,
    GOAWAY,
    HEADERS,
    MAX_WINDOW,
    PING,
    PREFACE,
    RST_STREAM,
    SETTINGS,
    TOP_UP_BYTES,
    WINDOW_UPDATE,
    ClientSide,
    Frame,
    frame,
    reset,
)
from loadtest.tools.h2streams import Streams, Tally


def frames(data: bytes) -> list[Frame]:
    return list(ClientSide().feed(data))


def test_a_frame_is_read_as_it_was_written() -> None:
    written = frame(DATA, END_STREAM, 5, b"abc")
    assert written == b"\0\0\3\0\1\0\0\0\5abc"
    (read,) = frames(written)
    assert read == Frame(DATA, END_STREAM, 5, b"abc") and read.ends_stream


def test_frames_may_be_cut_anywhere() -> None:
    data = frame(DATA, 0, 1, b"abc") + reset(3)
    side = ClientSide()
    found = [f for i in range(len(data)) for f in side.feed(data[i : i + 1])]
    assert [(f.kind, f.stream) for f in found] == [(DATA, 1), (RST_STREAM, 3)]
    assert found[1].payload == CANCEL.to_bytes(4, "big") and found[1].ends_stream


def test_a_client_begins_with_its_windows_wide_open() -> None:
    opening = ClientSide().opening()
    assert opening.startswith(PREFACE)
    settings, window = opening[24 : 24 + 15], opening[24 + 15 :]
    assert settings == frame(SETTINGS, 0, 0, b"\0\4" + MAX_WINDOW.to_bytes(4, "big"))
    more = (MAX_WINDOW - FIRST_WINDOW).to_bytes(4, "big")
    assert window == frame(WINDOW_UPDATE, 0, 0, more)


def test_requests_take_odd_numbers_and_may_leave_their_body_open() -> None:
    side = ClientSide()
    first, whole = side.post(80, "/x", b"{}")
    second, begun = side.post(80, "/x", b"{", 100)
    assert (first, second) == (1, 3)
    assert [f.ends_stream for f in frames(whole)] == [False, True]
    assert [f.ends_stream for f in frames(begun)] == [False, False]
    head = hpack.Decoder().decode(frames(whole)[0].payload)
    fields = {str(name): str(value) for name, value in head}
    assert (fields[":path"], fields["content-length"]) == ("/x", "2")


def test_settings_and_pings_are_acknowledged_once() -> None:
    side = ClientSide()
    data = (
        frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0) + frame(PING, 0, 0, b"8bytes!!")
    )
    assert list(side.feed(data)) == []
    assert side.replies == [frame(SETTINGS, ACK, 0), frame(PING, ACK, 0, b"8bytes!!")]


def test_the_connections_window_is_topped_up() -> None:
    side = ClientSide()
    size = 2**23
    for _ in range(TOP_UP_BYTES // size):
        assert not side.replies
        list(side.feed(frame(DATA, 0, 1, bytes(size))))
    topped = TOP_UP_BYTES.to_bytes(4, "big")
    assert side.replies == [frame(WINDOW_UPDATE, 0, 0, topped)]


def test_a_goaway_is_an_error() -> None:
    with pytest.raises(ConnectionError, match="code 11"):
        frames(frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0\x0b"))


def test_the_status_is_in_the_head() -> None:
    side = ClientSide()
    block = hpack.Encoder().encode([(":status", "429"), ("retry-after", "1")])
    (head,) = side.feed(frame(HEADERS, END_HEADERS, 1, block))
    assert side.status(head) == "429"


def seen(*pieces: bytes) -> Tally:
    """One stream's data, and its end."""
    tally = Tally()
    streams = Streams(tally)
    streams.begin(1)
    for piece in pieces:
        streams.see_data(1, piece, 5_000_000)
    streams.end(1)
    return tally


EVENTS = b'data: {"t":2000000,"seq":0}\n\ndata: {"t":3000000,"seq":1}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize("cut", range(0, len(EVENTS + DONE) + 1, 7))
def test_events_are_counted_and_timed_wherever_they_are_cut(cut: int) -> None:
    data = EVENTS + DONE
    tally = seen(data[:cut], data[cut:])
    assert (tally.added_us, tally.streams, tally.errors) == ([3000, 2000], 1, 0)


@pytest.mark.parametrize("data", [EVENTS, EVENTS[28:] + DONE, b""])
def test_a_stream_that_loses_an_event_or_its_end_is_an_error(data: bytes) -> None:
    assert seen(data).errors == 1
