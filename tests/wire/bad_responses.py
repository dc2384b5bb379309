"""Worker responses that are malformed, ambiguous or odd: RFC 9112 sections 2 to 9."""

from __future__ import annotations

from tests.wire.case import HELLO, ResponseCase, ok

_CHUNKED = b"Transfer-Encoding: chunked"
_SIZED = b"Content-Length: 5"


def _malformed(name: str, data: bytes) -> ResponseCase:
    """Nothing of it reaches the client but a 502."""
    return ResponseCase(name, data, 0, malformed=True, complete=False)


def _broken(name: str, body: bytes, passed_on: bytes = b"") -> ResponseCase:
    """Chunked, and broken when its head and ``passed_on`` are out already."""
    return ResponseCase(
        name, ok(_CHUNKED, body=body), 200, passed_on, malformed=True, complete=False
    )


def _line(line: bytes) -> bytes:
    return ok(b"Content-Length: 0", line=line)


def _empty(name: str, data: bytes, status: int) -> ResponseCase:
    return ResponseCase(name, data, status, b"", 0)


FRAMING = (  # RFC 9112 section 6.3
    ResponseCase("sized", ok(_SIZED, body=b"hello"), 200, b"hello", 5),
    ResponseCase("sized_empty", ok(b"Content-Length: 0"), 200, b"", 0),
    ResponseCase("chunked", ok(_CHUNKED, body=HELLO), 200, b"hello"),
    ResponseCase("chunked_empty", ok(_CHUNKED, body=b"0\r\n\r\n")),
    ResponseCase(
        "close_delimited", ok(body=b"hello"), 200, b"hello", reusable=False, eof=True
    ),
    ResponseCase("close_delimited_empty", ok(), reusable=False, eof=True),
    ResponseCase(
        "length_beside_chunked",
        ok(b"Content-Length: 3", _CHUNKED, body=HELLO),
        200,
        b"hello",
        reusable=False,
    ),
    _malformed("bad_length_beside_chunked", ok(b"Content-Length: x", _CHUNKED)),
    _malformed("lengths_differ", ok(_SIZED, b"Content-Length: 6", body=b"hello")),
    _malformed("length_repeated", ok(_SIZED, _SIZED, body=b"hello")),
    _malformed("length_list", ok(b"Content-Length: 5, 5", body=b"hello")),
    _malformed("length_with_plus", ok(b"Content-Length: +5", body=b"hello")),
    _malformed("length_negative", ok(b"Content-Length: -1", body=b"hello")),
    _malformed("length_empty", ok(b"Content-Length:", body=b"hello")),
    _malformed("length_huge", ok(b"Content-Length: 99999999999999999999")),
    _malformed("coding_gzip", ok(b"Transfer-Encoding: gzip", body=b"x")),
    _malformed(
        "coding_gzip_then_chunked", ok(b"Transfer-Encoding: gzip, chunked", body=HELLO)
    ),
    _malformed("coding_identity", ok(b"Transfer-Encoding: identity", body=b"x")),
    _malformed("coding_twice", ok(_CHUNKED, _CHUNKED, body=HELLO)),
    _malformed(
        "chunked_in_http10", ok(_CHUNKED, body=HELLO, line=b"HTTP/1.0 200 OK")
    ),
    # Coded bodies pass untouched (ruling 13): content coding is no framing.
    ResponseCase(
        "content_coding",
        ok(b"Content-Encoding: gzip", _SIZED, body=b"\x1f\x8b\x08\x00\x00"),
        200,
        b"\x1f\x8b\x08\x00\x00",
        5,
    ),
    _empty("no_content", ok(line=b"HTTP/1.1 204 No Content"), 204),
    _empty("no_content_with_length", ok(_SIZED, line=b"HTTP/1.1 204 x"), 204),
    _empty("no_content_with_coding", ok(_CHUNKED, line=b"HTTP/1.1 204 x"), 204),
    _empty("not_modified_with_length", ok(_SIZED, line=b"HTTP/1.1 304 x"), 304),
    _empty("not_modified_with_coding", ok(_CHUNKED, line=b"HTTP/1.1 304 x"), 304),
)

LINES = (  # RFC 9112 sections 2.2, 4 and 5
    _malformed("bare_lf", b"HTTP/1.1 200 OK\nContent-Length: 0\n\n"),
    _malformed("bare_lf_ends_field", b"HTTP/1.1 200 OK\r\nx: y\nz: a\r\n\r\n"),
    _malformed("bare_cr_in_value", ok(b"x: a\rb")),
    _malformed("obs_fold", ok(b"x: a", b" b")),
    _malformed("nul_in_value", ok(b"x: a\x00b")),
    _malformed("nul_in_reason", _line(b"HTTP/1.1 200 O\x00K")),
    _malformed("control_character_in_value", ok(b"x: a\x01")),
    _malformed("blank_before_colon", ok(b"x : y")),
    _malformed("blank_before_first_field", ok(b" x: y")),
    _malformed("field_without_colon", ok(b"x")),
    _malformed("empty_field_name", ok(b": x")),
    _malformed("empty_line_first", b"\r\n" + ok(b"Content-Length: 0")),
    _malformed("no_http_at_all", b"hello\r\n\r\n"),
    _malformed("a_request", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    _malformed("version_2", _line(b"HTTP/2.0 200 OK")),
    _malformed("version_0_9", _line(b"HTTP/0.9 200 OK")),
    _malformed("version_in_lower_case", _line(b"http/1.1 200 OK")),
    _malformed("status_000", _line(b"HTTP/1.1 000 x")),
    _malformed("status_099", _line(b"HTTP/1.1 099 x")),
    _malformed("status_99", _line(b"HTTP/1.1 99 x")),
    _malformed("status_1000", _line(b"HTTP/1.1 1000 x")),
    _malformed("status_with_letters", _line(b"HTTP/1.1 2oo x")),
    _malformed("status_missing", _line(b"HTTP/1.1 OK")),
    _malformed("two_blanks_before_status", _line(b"HTTP/1.1  200 OK")),
    _empty("reason_missing", _line(b"HTTP/1.1 200 "), 200),
    _empty("reason_and_blank_missing", _line(b"HTTP/1.1 200"), 200),
    _empty("reason_not_ascii", _line(b"HTTP/1.1 200 \xc3\xa4"), 200),
    _empty("status_unknown", _line(b"HTTP/1.1 799 x"), 799),
    _malformed("head_too_long", ok(b"x: " + b"y" * 262144)),
    _malformed("fields_too_many", ok(*([b"x: y"] * 257))),
    _empty("fields_many", ok(*([b"x: y"] * 255), b"Content-Length: 0"), 200),
)

INTERIM = (  # RFC 9110 section 15.2
    ResponseCase(
        "continue_first",
        b"HTTP/1.1 100 Continue\r\n\r\n" + ok(_SIZED, body=b"hello"),
        200,
        b"hello",
        5,
    ),
    ResponseCase(
        "several_interim",
        b"HTTP/1.1 102 x\r\n\r\nHTTP/1.1 103 x\r\nlink: y\r\n\r\n"
        + ok(_SIZED, body=b"hello"),
        200,
        b"hello",
        5,
    ),
    _malformed("interim_without_end", b"HTTP/1.1 102 x\r\n\r\n" * 33),
    _malformed(
        "switching_unasked",
        b"HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    ),
    _malformed("interim_malformed", b"HTTP/1.1 103 x\r\nlink : y\r\n\r\n"),
)

BEHIND = (  # bytes behind the end: the response is whole, the connection is not clean
    ResponseCase(
        "behind_sized", ok(_SIZED, body=b"helloX"), 200, b"hello", 5, reusable=False
    ),
    ResponseCase(
        "blank_line_behind_sized",
        ok(_SIZED, body=b"hello\r\n"),
        200,
        b"hello",
        5,
        reusable=False,
    ),
    ResponseCase(
        "behind_chunked", ok(_CHUNKED, body=HELLO + b"X"), 200, b"hello", reusable=False
    ),
    ResponseCase(
        "blank_line_behind_chunked",
        ok(_CHUNKED, body=HELLO + b"\r\n"),
        200,
        b"hello",
        reusable=False,
    ),
    ResponseCase(
        "second_response_behind_chunked",
        ok(_CHUNKED, body=HELLO + ok(_SIZED, body=b"0\r\n\r\n")),
        200,
        b"hello",
        reusable=False,
    ),
    ResponseCase(
        "second_response_behind_sized",
        ok(_SIZED, body=b"hello" + ok(_SIZED, body=b"again")),
        200,
        b"hello",
        5,
        reusable=False,
    ),
    ResponseCase(
        "body_behind_no_content",
        ok(_SIZED, body=b"hello", line=b"HTTP/1.1 204 x"),
        204,
        b"",
        0,
        reusable=False,
    ),
    ResponseCase(
        "chunks_behind_not_modified",
        ok(_CHUNKED, body=HELLO, line=b"HTTP/1.1 304 x"),
        304,
        b"",
        0,
        reusable=False,
    ),
    ResponseCase(
        "behind_an_empty_body",
        ok(b"Content-Length: 0", body=b"x"),
        200,
        b"",
        0,
        reusable=False,
    ),
)

CLOSING = (  # RFC 9112 section 9
    ResponseCase(
        "close_announced",
        ok(_SIZED, b"Connection: close", body=b"hello"),
        200,
        b"hello",
        5,
        reusable=False,
    ),
    ResponseCase(
        "close_on_a_second_line",
        ok(_SIZED, b"Connection: x", b"Connection: y , CLOSE", body=b"hello"),
        200,
        b"hello",
        5,
        reusable=False,
    ),
    ResponseCase(
        "http10",
        ok(_SIZED, body=b"hello", line=b"HTTP/1.0 200 OK"),
        200,
        b"hello",
        5,
        reusable=False,
    ),
    ResponseCase(
        "http10_close_delimited",
        ok(body=b"hello", line=b"HTTP/1.0 200 OK"),
        200,
        b"hello",
        reusable=False,
        eof=True,
    ),
    ResponseCase(
        "cut_in_head",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        0,
        reusable=False,
        complete=False,
        eof=True,
    ),
    ResponseCase(
        "cut_behind_interim",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        0,
        reusable=False,
        complete=False,
        eof=True,
    ),
    ResponseCase(
        "cut_in_sized_body",
        ok(_SIZED, body=b"hel"),
        200,
        b"hel",
        5,
        reusable=False,
        complete=False,
        eof=True,
    ),
    ResponseCase(
        "cut_before_sized_body",
        ok(_SIZED),
        200,
        b"",
        5,
        reusable=False,
        complete=False,
        eof=True,
    ),
    ResponseCase(
        "cut_in_chunk",
        ok(_CHUNKED, body=b"5\r\nhel"),
        200,
        b"hel",
        reusable=False,
        complete=False,
        eof=True,
    ),
    ResponseCase(
        "cut_between_chunks",
        ok(_CHUNKED, body=b"5\r\nhello\r\n"),
        200,
        b"hello",
        reusable=False,
        complete=False,
        eof=True,
    ),
    ResponseCase(
        "cut_before_the_last_line",
        ok(_CHUNKED, body=b"5\r\nhello\r\n0\r\n"),
        200,
        b"hello",
        reusable=False,
        complete=False,
        eof=True,
    ),
)

CHUNKS = (  # RFC 9112 section 7.1
    ResponseCase(
        "extensions",
        ok(_CHUNKED, body=b'5;a;b=c;d="e;f"\r\nhello\r\n0\r\n\r\n'),
        200,
        b"hello",
    ),
    # Dropped; a connection that had them is not worth keeping.
    ResponseCase(
        "trailers",
        ok(_CHUNKED, body=b"5\r\nhello\r\n0\r\nx: y\r\n\r\n"),
        200,
        b"hello",
        reusable=False,
    ),
    _broken("size_with_0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
    _broken("size_negative", b"-5\r\nhello\r\n0\r\n\r\n"),
    _broken("size_empty", b"\r\nhello\r\n0\r\n\r\n"),
    _broken("size_overflowing", b"fffffffffffffffff\r\nhello"),
    _broken("blank_behind_size", b"5 \r\nhello\r\n0\r\n\r\n"),
    # Bad style that RFC 9112 bids us tolerate and llhttp does not; no engine does it.
    _broken("blank_before_extension", b"5 ;a\r\nhello\r\n0\r\n\r\n"),
    _broken("size_line_ends_in_bare_lf", b"5\nhello\r\n0\r\n\r\n"),
    _broken("data_ends_in_bare_lf", b"5\r\nhello\n0\r\n\r\n", b"hello"),
    _broken("data_longer_than_its_size", b"4\r\nhello\r\n0\r\n\r\n", b"hell"),
    _broken("garbage_behind_a_chunk", b"5\r\nhello\r\nxyz\r\n\r\n", b"hello"),
    _broken("trailer_without_colon", b"5\r\nhello\r\n0\r\nx\r\n\r\n", b"hello"),
    _broken("trailer_with_length", b"0\r\nContent-Length: 5\r\n\r\nhello"),
)

CASES = (*FRAMING, *LINES, *INTERIM, *BEHIND, *CLOSING, *CHUNKS)
