"""What a request head says, and how the reader goes from one message to the next."""

from __future__ import annotations

from smgproxy.wire.http1_request import HeadLimits
from tests.wire.case import HELLO, NEXT, chunked, get, post
from tests.wire.conftest import ReadRequests
from tests.wire.reading import Requests


def test_names_are_lower_case_and_values_lose_their_edge_blanks(
    read_requests: ReadRequests,
) -> None:
    found = read_requests(get(b"X-Some-NAME: \t A  b\t ", b"y:z"))
    assert found.seen[0].head.headers == [
        (b"host", b"h"),
        (b"x-some-name", b"A  b"),
        (b"y", b"z"),
    ]


def test_first_of_repeated_fields_counts(read_requests: ReadRequests) -> None:
    head = read_requests(get(b"x: 1", b"X: 2")).seen[0].head
    assert head.first[b"x"] == b"1"
    assert [value for name, value in head.headers if name == b"x"] == [b"1", b"2"]


def test_fields_named_by_connection_are_gone(read_requests: ReadRequests) -> None:
    head = (
        read_requests(
            get(b"Connection: X-Hop, close", b"x-hop: 1", b"keep: 2", b"X-HOP: 3")
        )
        .seen[0]
        .head
    )
    assert b"x-hop" not in head.first
    assert (b"keep", b"2") in head.headers
    assert all(name != b"x-hop" for name, _ in head.headers)


def test_connection_over_several_lines_is_one_list(read_requests: ReadRequests) -> None:
    head = (
        read_requests(get(b"Connection: a", b"Connection: b", b"a: 1", b"b: 2"))
        .seen[0]
        .head
    )
    assert b"a" not in head.first
    assert b"b" not in head.first


def test_trailer_fields_never_become_header_fields(read_requests: ReadRequests) -> None:
    found = read_requests(chunked(b"0\r\nAuthorization: evil\r\n\r\n"))
    assert b"authorization" not in found.seen[0].head.first


def test_content_length_says_how_a_body_is_framed(read_requests: ReadRequests) -> None:
    bodies = (post(), post(b"Content-Length: 5", body=b"hello"), chunked(HELLO))
    lengths = [read_requests(data).seen[0].head.content_length for data in bodies]
    assert lengths == [0, 5, None]


def test_limits_are_the_ones_given(read_requests: ReadRequests) -> None:
    limits = HeadLimits(
        max_header_bytes=1024, max_header_count=8, max_request_line_bytes=256
    )
    assert read_requests(get(target=b"/" + b"a" * 300), limits).refused == 414
    assert read_requests(get(b"x: " + b"y" * 1024), limits).refused == 431
    assert read_requests(get(*[b"x: y"] * 8), limits).refused == 431
    assert read_requests(get(*[b"x: y"] * 7), limits).refused == 0


def test_a_reader_stops_behind_the_end_of_a_message() -> None:
    found = Requests()
    rest = found.reader.feed(post(b"Content-Length: 5", body=b"hello") + NEXT)
    assert rest == NEXT
    assert len(found.seen) == 1


def test_a_chunked_body_comes_in_one_piece_for_one_read() -> None:
    found = Requests().feed(chunked(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"))
    assert found.seen[0].pieces == 1


def test_a_body_is_passed_on_as_it_comes() -> None:
    found = Requests().feed(post(b"Content-Length: 5"), b"he", b"llo")
    assert found.seen[0].pieces == 2
    assert found.seen[0].is_ended


def test_mid_head_is_only_within_a_head() -> None:
    found = Requests()
    states = []
    for piece in (b"", b"\r\n", b"GET / HT", b"TP/1.1\r\nHost: h\r\n", b"\r\n"):
        found.feed(piece)
        states.append(found.reader.is_mid_head)
    assert states == [False, False, True, True, False]


def test_an_empty_line_is_forgiven_before_each_request() -> None:
    found = Requests().feed(b"\r\n", get(), b"\r\n", get(), b"\r\n" + get())
    assert len(found.seen) == 3
    assert found.refused == 0


def test_a_head_that_cannot_become_good_is_refused_before_its_end() -> None:
    assert Requests().feed(b"GET / HTTP/1.1\nHost: h").refused == 400
    assert Requests().feed(b"\x16\x03\x01\x00").refused == 400
    assert Requests().feed(b"G" * 20000).refused == 414
    assert Requests().feed(b"GET / HTTP/1.1\r\nx: " + b"y" * 70000).refused == 431
