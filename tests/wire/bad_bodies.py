"""Requests whose framing is malformed, ambiguous or odd: RFC 9112 sections 6 and 7."""

from __future__ import annotations

from tests.wire.case import (
    HELLO,
    NEXT,
    NEXT_SERVED,
    POST_HELLO,
    RequestCase,
    Served,
    chunked,
    get,
    post,
)

_STARTED = Served("POST /a")


def _refused(name: str, data: bytes, status: int = 400) -> RequestCase:
    return RequestCase(name, data, refused=status)


def _broken(name: str, body: bytes, status: int = 400) -> RequestCase:
    """A chunked body that turns out to be none behind a head that was fine."""
    return RequestCase(name, chunked(body), (_STARTED,), status, ends=False)


def _sized(value: bytes) -> bytes:
    return post(b"Content-Length: " + value, body=b"hello")


def _coded(value: bytes) -> bytes:
    return post(b"Transfer-Encoding: " + value, body=HELLO)


LENGTHS = (  # RFC 9112 section 6.2, RFC 9110 section 8.6
    RequestCase("sized", _sized(b"5") + NEXT, (POST_HELLO, NEXT_SERVED)),
    RequestCase("length_with_zeros", _sized(b"0005") + NEXT, (POST_HELLO, NEXT_SERVED)),
    RequestCase(
        "length_zero", post(b"Content-Length: 0") + NEXT, (_STARTED, NEXT_SERVED)
    ),
    RequestCase("no_length", post() + NEXT, (_STARTED, NEXT_SERVED)),
    RequestCase(
        "get_with_a_body",
        get(b"Content-Length: 5") + b"hello" + NEXT,
        (Served("GET /a", b"hello"), NEXT_SERVED),
    ),
    RequestCase("body_cut_short", _sized(b"6"), (_STARTED,), ends=False),
    _refused("length_with_plus", _sized(b"+5")),
    _refused("length_negative", _sized(b"-5")),
    _refused("length_hexadecimal", _sized(b"0x5")),
    _refused("length_with_letters", _sized(b"5a")),
    _refused("length_with_blank_inside", _sized(b"5 5")),
    _refused("length_with_underscore", _sized(b"5_0")),
    _refused("length_with_point", _sized(b"5.0")),
    _refused("length_empty", _sized(b"")),
    _refused("length_of_other_digits", _sized("٥".encode())),
    _refused("length_overflowing", _sized(b"18446744073709551621")),
    _refused("length_very_long", _sized(b"5" * 1000)),
    _refused("length_list", _sized(b"5, 5")),
    _refused("length_twice", post(b"Content-Length: 5", b"Content-Length: 5")),
    _refused(
        "length_twice_differing", post(b"Content-Length: 5", b"content-length: 6")
    ),
    _refused("length_with_blank_before_colon", post(b"Content-Length : 5")),
)

CODINGS = (  # RFC 9112 sections 6.1 and 6.3, ruling 14
    RequestCase("chunked", _coded(b"chunked") + NEXT, (POST_HELLO, NEXT_SERVED)),
    RequestCase("chunked_in_upper_case", _coded(b"CHUNKED"), (POST_HELLO,)),
    RequestCase("chunked_among_blanks", _coded(b" \tchunked\t "), (POST_HELLO,)),
    _refused(
        "smuggling_cl_te",
        post(b"Content-Length: 6", b"Transfer-Encoding: chunked", body=b"0\r\n\r\nG"),
    ),
    _refused(
        "smuggling_te_cl",
        post(
            b"Transfer-Encoding: chunked",
            b"Content-Length: 4",
            body=b"1e\r\nGET /evil HTTP/1.1\r\nHost: h\r\n\r\n0\r\n\r\n",
        ),
    ),
    _refused("length_zero_beside_chunked", chunked(HELLO, b"Content-Length: 0")),
    _refused("smuggling_te_te", chunked(HELLO, b"Transfer-Encoding: x")),
    _refused("chunked_twice", chunked(HELLO, b"Transfer-Encoding: chunked")),
    _refused("chunked_twice_in_a_list", _coded(b"chunked, chunked")),
    _refused("chunked_with_empty_member", _coded(b"chunked,")),
    _refused("coding_gzip", _coded(b"gzip")),
    _refused("coding_gzip_then_chunked", _coded(b"gzip, chunked")),
    _refused("coding_chunked_then_gzip", _coded(b"chunked, gzip")),
    _refused("coding_identity", _coded(b"identity")),
    _refused("coding_x_chunked", _coded(b"xchunked")),
    _refused("coding_quoted", _coded(b'"chunked"')),
    _refused("coding_with_parameter", _coded(b"chunked;q=1")),
    _refused("coding_empty", _coded(b"")),
    _refused("coding_with_vertical_tab", _coded(b"\x0bchunked")),
    _refused("coding_with_nul", _coded(b"chunked\x00")),
    _refused("coding_folded", post(b"Transfer-Encoding:", b" chunked", body=HELLO)),
    _refused("coding_blank_before_colon", post(b"Transfer-Encoding : chunked")),
    _refused(
        "coding_behind_bare_lf",
        post(b"x: y\nTransfer-Encoding: chunked", body=HELLO),
    ),
    _refused(
        "coding_in_http10",
        post(b"Transfer-Encoding: chunked", body=HELLO, version=b"1.0"),
    ),
    # Not the field its look suggests: no framing, and the body is a next request.
    RequestCase(
        "coding_misspelled_with_underscore",
        post(b"Transfer_Encoding: chunked", b"Content-Length: 5", body=b"hello"),
        (POST_HELLO,),
    ),
    RequestCase(
        "body_without_framing_is_the_next_request",
        post(body=b"hello\r\n\r\n"),
        (_STARTED,),
        400,
    ),
)

CHUNKS = (  # RFC 9112 section 7.1
    RequestCase(
        "several_chunks",
        chunked(b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n") + NEXT,
        (POST_HELLO, NEXT_SERVED),
    ),
    RequestCase(
        "sizes_with_zeros_and_both_cases",
        chunked(b"0A\r\n0123456789\r\n00a\r\n0123456789\r\n000\r\n\r\n"),
        (Served("POST /a", b"0123456789" * 2),),
    ),
    RequestCase("no_chunks", chunked(b"0\r\n\r\n") + NEXT, (_STARTED, NEXT_SERVED)),
    RequestCase(
        "extensions",
        chunked(b'5;a;b=c ; d="e;f"\r\nhello\r\n0 ;x\r\n\r\n'),
        (POST_HELLO,),
    ),
    RequestCase(
        "size_of_sixteen_digits",
        chunked(b"0000000000000005\r\nhello\r\n0\r\n\r\n"),
        (POST_HELLO,),
    ),
    _broken("size_of_seventeen_digits", b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
    _broken("size_with_0x", b"0x5\r\nhello\r\n0\r\n\r\n"),
    _broken("size_negative", b"-5\r\nhello\r\n0\r\n\r\n"),
    _broken("size_with_plus", b"+5\r\nhello\r\n0\r\n\r\n"),
    _broken("size_empty", b"\r\nhello\r\n0\r\n\r\n"),
    _broken("size_is_an_extension", b";a\r\nhello\r\n0\r\n\r\n"),
    _broken("size_with_other_letters", b"5g\r\nhello\r\n0\r\n\r\n"),
    _broken("blank_before_size", b" 5\r\nhello\r\n0\r\n\r\n"),
    _broken("blank_behind_size", b"5 \r\nhello\r\n0\r\n\r\n"),
    _broken("size_line_ends_in_bare_lf", b"5\nhello\r\n0\r\n\r\n"),
    _broken("bare_lf_in_extension", b"5;a\nb\r\nhello\r\n0\r\n\r\n"),
    _broken("bare_cr_in_extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    _broken("nul_in_extension", b"5;\x00\r\nhello\r\n0\r\n\r\n"),
    _broken("extension_too_long", b"5;" + b"a" * 300 + b"\r\nhello\r\n0\r\n\r\n"),
    _broken("data_without_line_end", b"5\r\nhello0\r\n\r\n"),
    _broken("data_ends_in_bare_lf", b"5\r\nhello\n0\r\n\r\n"),
    _broken("data_ends_in_bare_cr", b"5\r\nhello\r0\r\n\r\n"),
    _broken("data_longer_than_its_size", b"4\r\nhello\r\n0\r\n\r\n"),
    _broken("data_shorter_than_its_size", b"6\r\nhello\r\n0\r\n\r\n"),
    RequestCase(
        "trailers_are_dropped",
        chunked(b"5\r\nhello\r\n0\r\nx: y\r\nDigest: z\r\n\r\n") + NEXT,
        (POST_HELLO, NEXT_SERVED),
    ),
    RequestCase(
        "framing_in_trailers_is_dropped",
        chunked(b"5\r\nhello\r\n0\r\nContent-Length: 9\r\nHost: evil\r\n\r\n") + NEXT,
        (POST_HELLO, NEXT_SERVED),
    ),
    _broken("trailer_without_colon", b"0\r\nx\r\n\r\n"),
    _broken("trailer_with_blank_before_colon", b"0\r\nx : y\r\n\r\n"),
    _broken("trailer_folded", b"0\r\nx: y\r\n z\r\n\r\n"),
    _broken("trailer_ends_in_bare_lf", b"0\r\nx: y\n\r\n"),
    _broken("trailers_end_in_bare_lf", b"0\r\nx: y\r\n\n"),
    _broken("trailer_with_nul", b"0\r\nx: \x00\r\n\r\n"),
    _broken("trailer_too_long", b"0\r\nx: " + b"y" * 65536 + b"\r\n\r\n", 431),
    _broken("trailers_too_many", b"0\r\n" + b"x: yyyyyyyy\r\n" * 6000 + b"\r\n", 431),
    RequestCase("chunked_cut_short", chunked(b"5\r\nhel"), (_STARTED,), ends=False),
    RequestCase(
        "last_chunk_without_its_line", chunked(b"0\r\n"), (_STARTED,), ends=False
    ),
)

PIPELINED = (  # RFC 9112 section 9.3.2: a good request, then bytes that are none
    RequestCase(
        "garbage_behind_a_sized_body",
        _sized(b"5") + b"GET / HTTP/1.1 x\r\n\r\n",
        (POST_HELLO,),
        400,
    ),
    RequestCase(
        "garbage_behind_a_chunked_body",
        chunked(HELLO) + b"\x00",
        (POST_HELLO,),
        400,
    ),
    RequestCase(
        "empty_lines_behind_a_body",
        _sized(b"5") + b"\r\n\r\n" + NEXT,
        (POST_HELLO,),
        400,
    ),
)

CASES = (*LENGTHS, *CODINGS, *CHUNKS, *PIPELINED)
