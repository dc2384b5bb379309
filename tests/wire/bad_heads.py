"""Requests whose head is malformed, ambiguous or odd: RFC 9112 sections 2 to 6."""

from __future__ import annotations

from smgproxy.wire.http1_request import HeadLimits
from tests.wire.case import (
    GET_A,
    NEXT,
    NEXT_SERVED,
    POST_HELLO,
    RequestCase,
    Served,
    get,
    post,
)

_LIMITS = HeadLimits()
_LINE_REST = len(b"GET / HTTP/1.1")


def _padded(total: int, filler: bytes = b"") -> bytes:
    """A head of exactly ``total`` bytes."""
    start = b"GET /a HTTP/1.1\r\nHost: h\r\nx: " + filler
    return start + b"v" * (total - len(start) - 4) + b"\r\n\r\n"


def _fields(count: int) -> bytes:
    """A head with ``count`` field lines, Host among them."""
    return get(*(b"x-%d: v" % number for number in range(count - 1)))


def _refused(name: str, data: bytes, status: int = 400) -> RequestCase:
    return RequestCase(name, data, refused=status)


LINES = (  # RFC 9112 sections 2.2 and 5, RFC 9110 section 5.5
    _refused("bare_lf_ends_request_line", b"GET /a HTTP/1.1\nHost: h\r\n\r\n"),
    _refused("bare_lf_ends_field", b"GET /a HTTP/1.1\r\nHost: h\nx: y\r\n\r\n"),
    _refused("bare_lf_everywhere", b"GET /a HTTP/1.1\nHost: h\n\n"),
    _refused("bare_lf_empty_line", b"GET /a HTTP/1.1\r\nHost: h\r\n\n"),
    _refused("bare_cr_in_value", get(b"x: a\rb")),
    _refused("bare_cr_before_crlf", get(b"x: a\r")),
    _refused("bare_cr_in_request_line", b"GET /a\r HTTP/1.1\r\nHost: h\r\n\r\n"),
    _refused("bare_cr_hides_a_field", get(b"x: a\rTransfer-Encoding: chunked")),
    _refused("nul_in_value", get(b"x: a\x00b")),
    _refused("nul_in_name", get(b"x\x00: a")),
    _refused("nul_in_target", get(target=b"/a\x00b")),
    _refused("control_character_in_value", get(b"x: a\x01b")),
    _refused("vertical_tab_in_value", get(b"x: a\x0bb")),
    _refused("delete_in_value", get(b"x: a\x7fb")),
    _refused("escape_in_value", get(b"x: \x1b[31m")),
    _refused("obs_fold_with_blank", get(b"x: a", b" b")),
    _refused("obs_fold_with_tab", get(b"x: a", b"\tb")),
    _refused("obs_fold_of_host", b"GET /a HTTP/1.1\r\nHost:\r\n h\r\n\r\n"),
    _refused("blank_before_first_field", b"GET /a HTTP/1.1\r\n Host: h\r\n\r\n"),
    _refused("blank_before_colon", get(b"x : y")),
    _refused("tab_before_colon", get(b"x\t: y")),
    _refused("blank_in_name", get(b"x y: z")),
    _refused("empty_name", get(b": y")),
    _refused("no_colon", get(b"x")),
    _refused("name_with_parenthesis", get(b"x(y): z")),
    _refused("name_not_ascii", get(b"x\xe9: z")),
    RequestCase("empty_value", get(b"x:"), (GET_A,)),
    RequestCase("value_of_blanks", get(b"x: \t "), (GET_A,)),
    RequestCase("value_with_tab_and_obs_text", get(b"x: a\tb\xe9"), (GET_A,)),
    RequestCase("name_of_odd_token_characters", get(b"!#$%&'*+-.^_`|~: y"), (GET_A,)),
    RequestCase("one_empty_line_before", b"\r\n" + get(), (GET_A,)),
    RequestCase(
        "one_empty_line_between", get() + b"\r\n" + NEXT, (GET_A, NEXT_SERVED)
    ),
    _refused("two_empty_lines_before", b"\r\n\r\n" + get()),
    _refused("three_empty_lines_before", b"\r\n\r\n\r\n" + get()),
    _refused("bare_lf_before", b"\n" + get()),
    _refused("bare_cr_before", b"\r" + get()),
    _refused("blank_before", b" " + get()),
)

REQUEST_LINES = (  # RFC 9112 section 3
    _refused("two_blanks_in_request_line", b"GET  /a HTTP/1.1\r\nHost: h\r\n\r\n"),
    _refused("tab_in_request_line", b"GET\t/a HTTP/1.1\r\nHost: h\r\n\r\n"),
    _refused("blank_behind_version", b"GET /a HTTP/1.1 \r\nHost: h\r\n\r\n"),
    _refused("blank_in_target", b"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n"),
    _refused("no_target", b"GET HTTP/1.1\r\nHost: h\r\n\r\n"),
    _refused("no_method", b"/a HTTP/1.1\r\nHost: h\r\n\r\n"),
    _refused("method_is_no_token", b"G{T /a HTTP/1.1\r\nHost: h\r\n\r\n"),
    RequestCase(
        "lower_case_method",
        b"get /a HTTP/1.1\r\nHost: h\r\n\r\n",
        (Served("get /a"),),
    ),
    RequestCase(
        "unknown_method", b"BREW /a HTTP/1.1\r\nHost: h\r\n\r\n", (Served("BREW /a"),)
    ),
    _refused("tls_client_hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n"),
    _refused("a_response", b"HTTP/1.1 200 OK\r\n\r\n"),
    # RFC 9112 section 2.3, RFC 9110 section 2.5
    _refused("version_0_9_without_version", b"GET /a\r\n\r\n"),
    _refused("version_0_9", b"GET /a HTTP/0.9\r\nHost: h\r\n\r\n", 505),
    _refused("version_2_0", b"GET /a HTTP/2.0\r\nHost: h\r\n\r\n", 505),
    _refused("version_in_lower_case", b"GET /a http/1.1\r\nHost: h\r\n\r\n"),
    _refused("version_with_two_digits", b"GET /a HTTP/1.10\r\nHost: h\r\n\r\n"),
    _refused("version_with_leading_zero", b"GET /a HTTP/01.1\r\nHost: h\r\n\r\n"),
    _refused("version_without_minor", b"GET /a HTTP/1\r\nHost: h\r\n\r\n"),
    _refused("another_protocol", b"GET /a ICE/1.0\r\nHost: h\r\n\r\n"),
    RequestCase(
        "higher_minor_version", b"GET /a HTTP/1.2\r\nHost: h\r\n\r\n", (GET_A,)
    ),
    # Section 3.2
    RequestCase("query", get(target=b"/a?b=c?d"), (Served("GET /a?b=c?d"),)),
    RequestCase("empty_query", get(target=b"/a?"), (GET_A,)),
    RequestCase("double_slash", get(target=b"//h/a"), (Served("GET //h/a"),)),
    RequestCase("dots_are_kept", get(target=b"/../a"), (Served("GET /../a"),)),
    _refused("fragment", get(target=b"/a#b")),
    _refused("fragment_behind_query", get(target=b"/a?b#c")),
    _refused("target_without_slash", get(target=b"a")),
    _refused("target_not_ascii", get(target=b"/\xc3\xa9")),
    _refused("target_with_delete", get(target=b"/\x7f")),
    RequestCase("absolute_form", get(target=b"http://x/a?b"), (Served("GET /a?b"),)),
    RequestCase(
        "absolute_form_with_port", get(target=b"HTTPS://x:1/a"), (Served("GET /a"),)
    ),
    RequestCase(
        "absolute_form_without_path", get(target=b"http://x"), (Served("GET /"),)
    ),
    RequestCase(
        "absolute_form_query_alone", get(target=b"http://x?a"), (Served("GET /?a"),)
    ),
    _refused("absolute_form_without_host_field", get(target=b"http://x/", host=None)),
    _refused("absolute_form_with_empty_host", get(target=b"http:///a")),
    _refused("absolute_form_with_port_alone", get(target=b"http://:80/a")),
    _refused("absolute_form_with_user", get(target=b"http://u@x/a")),
    _refused("absolute_form_with_fragment", get(target=b"http://x/a#b")),
    _refused("absolute_form_of_another_scheme", get(target=b"ftp://x/a")),
    _refused("authority_form_of_get", get(target=b"x:80")),
    RequestCase(
        "authority_form_of_connect",
        b"CONNECT x:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        (Served("CONNECT x:443", keeps_alive=False),),
    ),
    _refused("connect_without_port", b"CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n"),
    _refused("connect_to_a_path", b"CONNECT /a HTTP/1.1\r\nHost: x\r\n\r\n"),
    RequestCase(
        "asterisk_of_options",
        b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        (Served("OPTIONS *"),),
    ),
    _refused("asterisk_of_get", get(target=b"*")),
)

HOSTS = (  # RFC 9112 section 3.2, RFC 3986 section 3.2
    _refused("host_missing", get(host=None)),
    _refused("host_twice", get(b"Host: h")),
    _refused("host_twice_differing", get(b"host: evil")),
    _refused("host_twice_in_http10", b"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n"),
    _refused("host_with_blank", get(host=b"a b")),
    _refused("host_with_slash", get(host=b"a/b")),
    _refused("host_with_user", get(host=b"u@a")),
    _refused("host_with_bad_port", get(host=b"a:8o")),
    _refused("host_with_long_port", get(host=b"a:123456")),
    _refused("host_with_two_ports", get(host=b"a:1:2")),
    _refused("host_with_bad_percent", get(host=b"a%2")),
    _refused("host_address_unclosed", get(host=b"[::1")),
    _refused("host_not_ascii", get(host=b"\xe9")),
    RequestCase("host_empty", get(host=b""), (GET_A,)),
    RequestCase("host_with_empty_port", get(host=b"h:"), (GET_A,)),
    RequestCase("host_ipv6", get(host=b"[::1]:30000"), (GET_A,)),
    RequestCase("host_percent_encoded", get(host=b"a%C3%A9"), (GET_A,)),
    RequestCase(
        "host_missing_in_http10",
        b"GET /a HTTP/1.0\r\n\r\n",
        (Served("GET /a", keeps_alive=False),),
    ),
)

CONNECTIONS = (  # RFC 9112 section 9.3, RFC 9110 sections 7.6.1, 7.8 and 10.1.1
    RequestCase("close", get(b"Connection: close"), (Served("GET /a", b"", False),)),
    RequestCase(
        "close_in_upper_case",
        get(b"Connection: CLOSE"),
        (Served("GET /a", b"", False),),
    ),
    RequestCase(
        "close_beside_keep_alive",
        get(b"Connection: keep-alive, close"),
        (Served("GET /a", b"", False),),
    ),
    RequestCase(
        "close_on_a_second_line",
        get(b"Connection:", b"Connection: close"),
        (Served("GET /a", b"", False),),
    ),
    RequestCase(
        "keep_alive_in_http10",
        b"GET /a HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
        (GET_A,),
    ),
    RequestCase(
        "connection_names_a_framing_field",
        post(b"Connection: content-length", b"Content-Length: 5", body=b"hello") + NEXT,
        (POST_HELLO, NEXT_SERVED),
    ),
    RequestCase(
        "h2c_offer_with_a_body",
        post(
            b"Connection: Upgrade, HTTP2-Settings",
            b"Upgrade: h2c",
            b"HTTP2-Settings: AAMAAABkAAQAAP__",
            b"Content-Length: 5",
            body=b"hello",
        )
        + NEXT,
        (POST_HELLO, NEXT_SERVED),
    ),
    RequestCase(
        "websocket_offer",
        get(b"Connection: upgrade", b"Upgrade: websocket") + NEXT,
        (GET_A, NEXT_SERVED),
    ),
    RequestCase(
        "expect_continue",
        post(b"Expect: 100-Continue", b"Content-Length: 5", body=b"hello"),
        (Served("POST /a", b"hello", True, True),),
    ),
    RequestCase(
        "expect_something_else",
        post(b"Expect: 200-ok", b"Content-Length: 5", body=b"hello"),
        (POST_HELLO,),
    ),
    RequestCase(
        "expect_continue_in_http10",
        post(
            b"Expect: 100-continue", b"Content-Length: 5", body=b"hello", version=b"1.0"
        ),
        (Served("POST /a", b"hello", False, False),),
    ),
)

LIMITS = (
    RequestCase(
        "request_line_at_the_limit",
        get(target=b"/" + b"a" * (_LIMITS.max_request_line_bytes - _LINE_REST)),
        (Served("GET /" + "a" * (_LIMITS.max_request_line_bytes - _LINE_REST)),),
    ),
    _refused(
        "request_line_beyond_the_limit",
        get(target=b"/" + b"a" * (_LIMITS.max_request_line_bytes - _LINE_REST + 1)),
        414,
    ),
    RequestCase("head_at_the_limit", _padded(_LIMITS.max_header_bytes), (GET_A,)),
    _refused("head_beyond_the_limit", _padded(_LIMITS.max_header_bytes + 1), 431),
    _refused("head_without_end", _padded(_LIMITS.max_header_bytes + 9)[:-4], 431),
    RequestCase("fields_at_the_limit", _fields(_LIMITS.max_header_count), (GET_A,)),
    _refused("fields_beyond_the_limit", _fields(_LIMITS.max_header_count + 1), 431),
)

CASES = (*LINES, *REQUEST_LINES, *HOSTS, *CONNECTIONS, *LIMITS)
