"""Header lists made into heads: what the corpus of frames does not show."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smgproxy.core.message import RequestHead, ResponseHead
from smgproxy.wire.http1 import BadMessage
from smgproxy.wire.http1_request import HeadLimits
from smgproxy.wire.http2_head import check_trailers, request_head, response_fields

Fields = Iterable[tuple[bytes, bytes]]
GET = [
    *((b":method", b"GET"), (b":scheme", b"http")),
    *((b":authority", b"g"), (b":path", b"/a?b=c")),
]


def read(fields: Fields, has_body: bool = False, /, **limits: int) -> RequestHead:
    return request_head(fields, has_body=has_body, limits=HeadLimits(**limits))


def status_of(fields: Fields, **limits: int) -> int:
    with pytest.raises(BadMessage) as caught:
        read(fields, False, **limits)
    return caught.value.status


def test_a_head_says_what_its_fields_say() -> None:
    head = read([*GET, (b"x-a", b"1"), (b"x-a", b"2")])
    assert (head.method, head.path, head.query) == ("GET", "/a", "b=c")
    assert head.headers == [(b"x-a", b"1"), (b"x-a", b"2")]
    assert head.is_http2
    assert head.content_length == 0
    assert not head.expects_continue


def test_a_body_without_a_length_is_of_unknown_length() -> None:
    assert read(GET, True).content_length is None


def test_a_length_is_taken_at_its_word() -> None:
    fields = [*GET, (b"content-length", b"12")]
    assert read(fields, True).content_length == 12
    assert status_of(fields) == 400


def test_100_continue_is_noticed() -> None:
    fields = [*GET, (b"expect", b"100-Continue")]
    assert read(fields, True).expects_continue


def test_the_limits_are_those_of_http_1() -> None:
    many = [*GET, *[(b"x-a", b"1")] * 9]
    assert read(many, max_header_count=9)
    assert status_of(many, max_header_count=8) == 431
    long = [*GET[:3], (b":path", b"/" + b"a" * 300)]
    assert read(long, max_request_line_bytes=301)
    assert status_of(long, max_request_line_bytes=300) == 414


def test_a_malformed_field_is_that_however_many_there_are() -> None:
    fields = [*GET, *[(b"x-a", b"1")] * 200, (b"X", b"1")]
    assert status_of(fields) == 400


names = st.binary(max_size=12) | st.sampled_from(
    [name for name, _ in GET] + [b"host", b"te", b"content-length", b"connection"]
)
values = st.binary(max_size=12) | st.sampled_from([value for _, value in GET])
lists = st.lists(st.tuples(names, values), max_size=8)


@given(lists, st.lists(st.tuples(names, values), max_size=3), st.booleans())
def test_a_head_is_well_formed_or_refused(
    before: Fields, behind: Fields, has_body: bool
) -> None:
    for fields in ([*before], [*GET, *before, *behind], [*before, *GET]):
        try:
            head = read(fields, has_body)
        except BadMessage as error:
            assert error.status in (400, 414, 431)
            continue
        told = b"".join(name + value for name, value in head.headers)
        assert not set(told) & set(b"\r\n\0")
        for name, value in head.headers:
            assert name and name == name.lower() and b":" not in name
            assert value == value.strip(b" \t")
        assert head.path.startswith("/") or head.path == "*" or head.method == "CONNECT"
        assert not set(head.path + head.query) & set(" #\r\n")


@given(lists)
def test_trailers_are_well_formed_or_refused(fields: Fields) -> None:
    try:
        check_trailers(fields)
    except BadMessage as error:
        assert error.status == 400
    else:
        assert all(name and name == name.lower() for name, _ in fields)


def test_a_response_has_its_length_and_its_date() -> None:
    head = ResponseHead(200, [(b"x-a", b"b")], 5)
    assert response_fields(head, b"now") == [
        *((b":status", b"200"), (b"x-a", b"b")),
        *((b"content-length", b"5"), (b"date", b"now")),
    ]


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_without_a_body_has_no_length(status: int) -> None:
    names = [name for name, _ in response_fields(ResponseHead(status, [], 0), b"now")]
    assert names == [b":status", b"date"]


def test_a_date_of_the_workers_stays() -> None:
    fields = response_fields(ResponseHead(200, [(b"date", b"then")], None), b"now")
    assert fields == [(b":status", b"200"), (b"date", b"then")]
