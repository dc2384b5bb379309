"""What HTTP/2 clients may send and may not, by sections of RFC 9113 (and 7541).

``GOOD`` is served, ``STREAM`` ends one stream and ``CONNECTION`` the connection. Where
the RFC leaves a choice (section 5.4.1 lets any stream error be one of the connection)
the case says what this gateway does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from h2.errors import ErrorCodes
from hpack import Encoder
from hyperframe.frame import AltSvcFrame, PushPromiseFrame

from smgproxy.wire.http2 import (
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
)
from tests.downstream.h2_stage import (
    HELLO,
    REQUEST,
    block,
    data,
    goaway,
    headers,
    in_pieces,
    ping,
    raw,
    rst,
    settings,
    window,
    with_fields,
)

PROTOCOL = ErrorCodes.PROTOCOL_ERROR
FLOW = ErrorCodes.FLOW_CONTROL_ERROR
CLOSED = ErrorCodes.STREAM_CLOSED
SIZE = ErrorCodes.FRAME_SIZE_ERROR
COMPRESSION = ErrorCodes.COMPRESSION_ERROR
CALM = ErrorCodes.ENHANCE_YOUR_CALM
REFUSED = ErrorCodes.REFUSED_STREAM


class Good(NamedTuple):
    """Frames behind the client's preface and SETTINGS that are served.

    ``bodies``: of the requests that come whole, in order.
    """

    section: str
    name: str
    data: bytes
    bodies: tuple[bytes, ...] = ()


class Bad(NamedTuple):
    """Frames that end one stream or the connection.

    ``code``: the error; ``status``: of the answer instead of one. ``heads``: requests
    that had begun in good order; none of them is served as a whole one.
    """

    section: str
    name: str
    data: bytes
    code: int = 0
    heads: int = 0
    status: int = 0
    hello: bytes = HELLO
    is_read: bool = True  # what comes of bodies


def fields(*more: tuple[bytes, bytes], end: bool = True, **pseudo: Any) -> bytes:
    """A request on stream 1 with more, other or fewer fields."""
    return headers(1, with_fields(*more, **pseudo), end)


def lone(name: bytes, value: bytes = b"x") -> bytes:
    """A request on stream 1 with one more field."""
    return fields((name, value))


BLOCK = block(REQUEST)
LENGTH_3 = (b"content-length", b"3")
OPEN = headers(end=False)
UPLOAD = fields(LENGTH_3, end=False)
TRAILERS = ((b"x-sum", b"1"),)
ENDS, ENDS_BLOCK, PADDED, WITH_PRIORITY = 0x1, 0x4, 0x8, 0x20
BOTH = ENDS | ENDS_BLOCK
LONG_PATH = block(with_fields(path=b"/" + b"a" * 16384))
# The same request twice of one encoder: the second is a few bytes of table entries.
TABLE = Encoder()
FIRST, AGAIN = (TABLE.encode([*REQUEST, (b"x-a", b"b")]) for _ in range(2))

GOOD = (
    Good("3.4", "the least: a request at once", headers(), (b"",)),
    Good("4.1", "the reserved bit of a stream identifier is ignored",
         raw(HEADERS, BLOCK, BOTH, 0x80000001), (b"",)),
    Good("4.1", "undefined flags are ignored",
         raw(HEADERS, BLOCK, BOTH | 0xD2, 1), (b"",)),
    Good("4.2", "a frame of the largest size",
         OPEN + data(1, b"x" * 16384, True), (b"x" * 16384,)),
    Good("4.3", "a header block in three frames",
         in_pieces(1, BLOCK, 3, 9), (b"",)),
    Good("4.3", "a header block in frames of nothing",
         in_pieces(1, BLOCK, 0, 0, 0), (b"",)),
    Good("5.1", "WINDOW_UPDATE and RST_STREAM of a stream that ended",
         headers() + rst() + window(1, 1) + rst() + headers(3), (b"", b"")),
    Good("5.1.1", "stream identifiers may be left out", headers(7), (b"",)),
    Good("5.3.2", "a stream that depends on itself",
         headers(1, flags=["PRIORITY"], depends_on=1), (b"",)),
    Good("5.3.2", "PRIORITY of an idle stream and of itself",
         raw(PRIORITY, b"\0\0\0\x05\x10", 0, 5) + headers(), (b"",)),
    Good("5.5", "an unknown frame type", raw(0xAB, b"anything", 0xFF, 9) + headers(),
         (b"",)),
    Good("5.5", "an unknown frame type on stream 0", raw(0xFF) + headers(), (b"",)),
    Good("5.5", "ALTSVC, which is for clients, even malformed",
         AltSvcFrame(0, b"o", b"f").serialize() + raw(10, b"\xff") + headers(), (b"",)),
    Good("6.1", "a body in pieces, empty ones among them",
         OPEN + data(1, b"he") + data() + data(1, b"llo") + data(1, end=True),
         (b"hello",)),
    Good("6.1", "padding is no body", OPEN + data(1, b"hi", True, 200), (b"hi",)),
    Good("6.1", "nothing but padding", OPEN + raw(DATA, b"\x02\0\0", ENDS | PADDED, 1),
         (b"",)),
    Good("6.2", "padded HEADERS with a priority",
         headers(1, flags=["PADDED", "PRIORITY"], pad_length=9, depends_on=3), (b"",)),
    Good("6.4", "RST_STREAM of a request whose answer is awaited",
         headers() + rst() + headers(3), (b"", b"")),
    Good("6.5", "SETTINGS of no setting", settings() + headers(), (b"",)),
    Good("6.5.2", "an unknown setting",
         raw(SETTINGS, b"\xf0\0\0\0\0\1") + headers(), (b"",)),
    Good("6.5.2", "the smallest and the largest frames, both windows",
         settings(max_frame_size=16384, initial_window_size=0)
         + settings(max_frame_size=2**24 - 1, initial_window_size=2**31 - 1)
         + headers(), (b"",)),
    Good("6.5.2", "push, which is not used, may be on or off",
         settings(enable_push=1) + settings(enable_push=0) + headers(), (b"",)),
    Good("6.5.3", "an ACK nobody waits for", raw(SETTINGS, b"", ENDS) + headers(),
         (b"",)),
    Good("6.7", "PING and an ACK of none", ping() + raw(PING, b"x" * 8, ENDS)
         + headers(), (b"",)),
    Good("6.8", "GOAWAY lets what runs end", OPEN + goaway() + data(1, b"hi", True),
         (b"hi",)),
    Good("6.8", "GOAWAY with a debug text", OPEN + raw(GOAWAY, b"\0" * 8 + b"why")
         + data(1, b"", True), (b"",)),
    Good("6.9", "the largest window of a stream",
         headers() + window(1, 2**31 - 1 - 65535), (b"",)),
    Good("6.9.1", "the largest window of the connection",
         headers() + window(0, 2**31 - 1 - 65535), (b"",)),
    Good("6.9.1", "an upload as large as its first window",
         OPEN + data(1, b"x" * 16384) * 3 + data(1, b"x" * 16383, True),
         (b"x" * 65535,)),
    Good("8.1", "trailers end a request",
         OPEN + data(1, b"hi") + headers(1, TRAILERS), (b"hi",)),
    Good("8.1", "trailers without a body", OPEN + headers(1, TRAILERS), (b"",)),
    Good("8.1.1", "a body as long as announced", UPLOAD + data(1, b"abc", True),
         (b"abc",)),
    Good("8.1.1", "a body as long as announced, ended by trailers",
         UPLOAD + data(1, b"abc") + headers(1, TRAILERS), (b"abc",)),
    Good("8.1.1", "a length of nothing with END_STREAM",
         lone(b"content-length", b"0"), (b"",)),
    Good("8.2.1", "a value may be empty, and hold obs-text and blanks within",
         fields((b"x-a", b""), (b"x-b", b"a b\tc\xff")), (b"",)),
    Good("8.2.2", "TE with trailers", lone(b"te", b"trailers"), (b"",)),
    Good("8.2.3", "Cookie in crumbs", fields((b"cookie", b"a=1"), (b"cookie", b"b=2")),
         (b"",)),
    Good("8.3.1", "pseudo-header fields in any order",
         headers(1, (*reversed(REQUEST), (b"x-a", b"b"))), (b"",)),
    Good("8.3.1", "Host instead of :authority",
         fields((b"host", b"g"), authority=None), (b"",)),
    Good("8.3.1", "Host as :authority, in other letters", lone(b"host", b"G"), (b"",)),
    Good("8.3.1", "OPTIONS of the server", fields(method=b"OPTIONS", path=b"*"),
         (b"",)),
    Good("8.3.1", "the scheme in capitals", fields(scheme=b"HTTP"), (b"",)),
    Good("8.5", "CONNECT of an authority",
         fields(method=b"CONNECT", scheme=None, path=None, authority=b"g:443"), (b"",)),
    Good("7541 2.3", "fields of the dynamic table",
         raw(HEADERS, FIRST, BOTH, 1) + raw(HEADERS, AGAIN, BOTH, 3), (b"", b"")),
    Good("7541 4.2", "a table of nothing, then one of the usual size",
         raw(HEADERS, b"\x20\x3f\xe1\x1f" + BLOCK, BOTH, 1), (b"",)),
)  # fmt: skip

STREAM = (
    Bad("5.1", "DATA behind END_STREAM", headers() + data(1, b"x"), CLOSED, heads=1),
    Bad("5.1", "HEADERS behind END_STREAM", headers() + headers(), CLOSED, heads=1),
    Bad("6.9", "an increment of 0", OPEN + window(1, 0), PROTOCOL, heads=1),
    Bad("6.9", "an increment of 0 and the reserved bit",
        OPEN + window(1, 1 << 31), PROTOCOL, heads=1),
    Bad("6.9.1", "a window beyond 2^31-1", OPEN + window(1, 2**31 - 1), FLOW, heads=1),
    Bad("8.1.1", "a body longer than announced",
        UPLOAD + data(1, b"abcd"), PROTOCOL, heads=1),
    Bad("8.1.1", "a body shorter than announced",
        UPLOAD + data(1, b"ab", True), PROTOCOL, heads=1),
    Bad("8.1.1", "a body longer than announced within its frames",
        UPLOAD + data(1, b"ab") + data(1, b"cd", True), PROTOCOL, heads=1),
    Bad("8.1.1", "a body cut short by trailers",
        UPLOAD + data(1, b"ab") + headers(1, TRAILERS), PROTOCOL, heads=1),
    Bad("8.1.1", "padding does not count as body",
        UPLOAD + data(1, b"ab", True, 1), PROTOCOL, heads=1),
    Bad("8.1.1", "a length and END_STREAM", fields(LENGTH_3), PROTOCOL),
    Bad("8.1.1", "a length of no digits", lone(b"content-length", b"+3"), PROTOCOL),
    Bad("8.1.1", "an empty length", lone(b"content-length", b""), PROTOCOL),
    Bad("8.1.1", "a list of lengths",
        fields((b"content-length", b"3, 3"), end=False), PROTOCOL),
    Bad("8.1.1", "two lengths", fields(LENGTH_3, LENGTH_3, end=False), PROTOCOL),
    Bad("8.1.1", "two lengths that differ",
        fields(LENGTH_3, (b"content-length", b"4"), end=False), PROTOCOL),
    Bad("8.1", "a pseudo-header field in trailers",
        OPEN + headers(1, ((b":path", b"/b"),)), PROTOCOL, heads=1),
    Bad("8.1", "a malformed field in trailers",
        OPEN + headers(1, ((b"X", b"y"),)), PROTOCOL, heads=1),
    Bad("8.1", "a field of HTTP/1.1 in trailers",
        OPEN + headers(1, ((b"connection", b"y"),)), PROTOCOL, heads=1),
    Bad("8.2.1", "a capital in a name", lone(b"x-A"), PROTOCOL),
    Bad("8.2.1", "an empty name", lone(b""), PROTOCOL),
    Bad("8.2.1", "a blank in a name", lone(b"x a"), PROTOCOL),
    Bad("8.2.1", "a blank behind a name", lone(b"x-a "), PROTOCOL),
    Bad("8.2.1", "a colon in a name", lone(b"x:a"), PROTOCOL),
    Bad("8.2.1", "NUL in a name", lone(b"x\0a"), PROTOCOL),
    Bad("8.2.1", "a line feed in a name", lone(b"x\na"), PROTOCOL),
    Bad("8.2.1", "DEL in a name", lone(b"x\x7fa"), PROTOCOL),
    Bad("8.2.1", "obs-text in a name", lone(b"x\xffa"), PROTOCOL),
    Bad("8.2.1", "NUL in a value", lone(b"x-a", b"b\0c"), PROTOCOL),
    Bad("8.2.1", "a line feed in a value", lone(b"x-a", b"b\nc: d"), PROTOCOL),
    Bad("8.2.1", "a carriage return in a value", lone(b"x-a", b"b\rc"), PROTOCOL),
    Bad("8.2.1", "a blank before a value", lone(b"x-a", b" b"), PROTOCOL),
    Bad("8.2.1", "a tab behind a value", lone(b"x-a", b"b\t"), PROTOCOL),
    Bad("8.2.1", "a line feed in a path", fields(path=b"/a\nb"), PROTOCOL),
    Bad("8.2.2", "Connection", lone(b"connection", b"close"), PROTOCOL),
    Bad("8.2.2", "Proxy-Connection", lone(b"proxy-connection"), PROTOCOL),
    Bad("8.2.2", "Keep-Alive", lone(b"keep-alive"), PROTOCOL),
    Bad("8.2.2", "Upgrade", lone(b"upgrade", b"websocket"), PROTOCOL),
    Bad("8.2.2", "Transfer-Encoding",
        fields((b"transfer-encoding", b"chunked"), end=False), PROTOCOL),
    Bad("8.2.2", "TE with a coding", lone(b"te", b"gzip"), PROTOCOL),
    Bad("8.2.2", "TE with more than trailers",
        lone(b"te", b"trailers, gzip"), PROTOCOL),
    Bad("8.3", "an unknown pseudo-header field", fields(nonsense=b"x"), PROTOCOL),
    Bad("8.3", "a pseudo-header field of responses", fields(status=b"200"), PROTOCOL),
    Bad("8.3", "a request that says it is an interim response",
        headers(1, ((b":status", b"100"), *REQUEST)), PROTOCOL),
    Bad("8.3", "an interim status and a body to come",
        headers(1, ((b":status", b"103"),), end=False), PROTOCOL),
    Bad("8.3", "a pseudo-header field behind others",
        headers(1, (*REQUEST[:3], (b"x-a", b"b"), REQUEST[3])), PROTOCOL),
    Bad("8.3", "a pseudo-header field twice",
        headers(1, (*REQUEST, (b":path", b"/a"))), PROTOCOL),
    Bad("8.3", "two paths", headers(1, (*REQUEST, (b":path", b"/b"))), PROTOCOL),
    Bad("8.3", "the name of no pseudo-header field",
        headers(1, (*REQUEST, (b":", b"/a"))), PROTOCOL),
    Bad("8.3.1", "no fields at all", headers(1, ()), PROTOCOL),
    Bad("8.3.1", "no method", fields(method=None), PROTOCOL),
    Bad("8.3.1", "no scheme", fields(scheme=None), PROTOCOL),
    Bad("8.3.1", "no path", fields(path=None), PROTOCOL),
    Bad("8.3.1", "no authority", fields(authority=None), PROTOCOL),
    Bad("8.3.1", "an empty method", fields(method=b""), PROTOCOL),
    Bad("8.3.1", "a method of two words", fields(method=b"GET /b"), PROTOCOL),
    Bad("8.3.1", "an empty scheme", fields(scheme=b""), PROTOCOL),
    Bad("8.3.1", "a scheme that is not HTTP's", fields(scheme=b"ftp"), PROTOCOL),
    Bad("8.3.1", "an empty path", fields(path=b""), PROTOCOL),
    Bad("8.3.1", "a path without its slash", fields(path=b"a"), PROTOCOL),
    Bad("8.3.1", "a path with a blank", fields(path=b"/a b"), PROTOCOL),
    Bad("8.3.1", "a path with a blank behind it", fields(path=b"/a "), PROTOCOL),
    Bad("8.3.1", "a path with a version", fields(path=b"/a HTTP/1.1"), PROTOCOL),
    Bad("8.3.1", "a path with a fragment", fields(path=b"/a#b"), PROTOCOL),
    Bad("8.3.1", "a path with a whole URL", fields(path=b"http://g/a"), PROTOCOL),
    Bad("8.3.1", "an asterisk for another method than OPTIONS",
        fields(path=b"*"), PROTOCOL),
    Bad("8.3.1", "an empty authority and no Host", fields(authority=b""), PROTOCOL),
    Bad("8.3.1", "an authority with a user", fields(authority=b"u@g"), PROTOCOL),
    Bad("8.3.1", "an authority with a path", fields(authority=b"g/x"), PROTOCOL),
    Bad("8.3.1", "Host is another than :authority", lone(b"host", b"h"), PROTOCOL),
    Bad("8.3.1", "Host beside an empty :authority",
        fields((b"host", b"g"), authority=b""), PROTOCOL),
    Bad("8.3.1", "two Hosts", fields((b"host", b"g"), (b"host", b"g")), PROTOCOL),
    Bad("8.5", "CONNECT with a path",
        fields(method=b"CONNECT", scheme=None, authority=b"g:443"), PROTOCOL),
    Bad("8.5", "CONNECT with a scheme",
        fields(method=b"CONNECT", path=None, authority=b"g:443"), PROTOCOL),
    Bad("8.5", "CONNECT without an authority",
        fields((b"host", b"g:443"), method=b"CONNECT", scheme=None, path=None,
               authority=None), PROTOCOL),
    Bad("8441 3", "extended CONNECT, which was not offered",
        fields(method=b"CONNECT", protocol=b"websocket"), PROTOCOL),
    Bad("8.1.1", "many fields", fields(*[(b"x-a", b"b")] * 101), status=431),
    Bad("8.1.1", "many fields and a body to come",
        fields(*[(b"x-a", b"b")] * 101, end=False), status=431),
    Bad("8.3.1", "a long path", in_pieces(1, LONG_PATH, 16000), status=414),
    Bad("8.3.1", "a long path and a body to come",
        in_pieces(1, LONG_PATH, 16000, end=False), status=414),
)  # fmt: skip

CONNECTION = (
    Bad("3.4", "another preface", b"", PROTOCOL,
        hello=PREFACE[:-4] + b"\n\n\n\n" + settings()),
    Bad("3.4", "a request of HTTP/1.1", b"", PROTOCOL, hello=b"GET / HTTP/1.1\r\n\r\n"),
    Bad("3.4", "no SETTINGS first", headers(), PROTOCOL, hello=PREFACE),
    Bad("3.4", "an ACK first", b"", PROTOCOL, hello=PREFACE + raw(SETTINGS, b"", ENDS)),
    Bad("3.4", "an unknown frame first", b"", PROTOCOL, hello=PREFACE + raw(0xAB)),
    Bad("4.2", "a frame beyond the largest size",
        OPEN + raw(DATA, b"x" * 16385, 0, 1), SIZE, heads=1),
    Bad("4.2", "the header alone of a frame that is too long",
        raw(HEADERS, b"", BOTH, 1, size=16385), SIZE),
    Bad("4.2", "an unknown frame that is too long", raw(0xAB, size=16385), SIZE),
    Bad("4.3", "a block that cannot be decoded",
        raw(HEADERS, b"\x40\x01", BOTH, 1), COMPRESSION),
    Bad("4.3", "trailers that cannot be decoded",
        OPEN + raw(HEADERS, b"\xff\xff\xff\x0f", BOTH, 1), COMPRESSION, heads=1),
    Bad("4.3", "a block that cannot be decoded, of a refused stream",
        headers(3) + raw(HEADERS, b"\x80", BOTH, 5), COMPRESSION, heads=1),
    Bad("4.3", "DATA inside a header block",
        in_pieces(1, BLOCK, 3)[:12] + data(1, b"x"), PROTOCOL),
    Bad("4.3", "PING inside a header block",
        in_pieces(1, BLOCK, 3)[:12] + ping(), PROTOCOL),
    Bad("4.3", "HEADERS inside a header block",
        in_pieces(1, BLOCK, 3)[:12] + headers(3), PROTOCOL),
    Bad("4.3", "an unknown frame inside a header block",
        in_pieces(1, BLOCK, 3)[:12] + raw(0xAB), PROTOCOL),
    Bad("5.1", "DATA of an idle stream", data(1, b"x"), PROTOCOL),
    Bad("5.1", "RST_STREAM of an idle stream", rst(), PROTOCOL),
    Bad("5.1", "WINDOW_UPDATE of an idle stream", window(1, 1), PROTOCOL),
    Bad("5.1", "WINDOW_UPDATE of a stream of ours", headers(5) + window(2, 1), PROTOCOL,
        heads=1),
    Bad("5.1", "RST_STREAM of a stream of ours", headers(5) + rst(2), PROTOCOL,
        heads=1),
    Bad("5.1", "DATA of a stream of ours", headers(5) + data(2), PROTOCOL, heads=1),
    Bad("5.1.1", "an even stream identifier", headers(2), PROTOCOL),
    Bad("5.1.1", "a stream identifier below the last", headers(5) + headers(3),
        PROTOCOL, heads=1),
    Bad("6.1", "DATA of stream 0", headers() + raw(DATA, b"x"), PROTOCOL, heads=1),
    Bad("6.1", "padding longer than the frame",
        OPEN + raw(DATA, b"\x04abc", PADDED, 1), PROTOCOL, heads=1),
    Bad("6.1", "padded DATA without a length",
        OPEN + raw(DATA, b"", PADDED, 1), SIZE, heads=1),
    Bad("6.2", "HEADERS of stream 0", raw(HEADERS, BLOCK, BOTH, 0), PROTOCOL),
    Bad("6.2", "padding longer than the frame",
        raw(HEADERS, b"\xff" + BLOCK, BOTH | PADDED, 1), PROTOCOL),
    Bad("6.2", "padding that reaches into the priority",
        raw(HEADERS, b"\x05\0\0\0\0\x10abcd", BOTH | PADDED | WITH_PRIORITY, 1),
        PROTOCOL),
    Bad("6.2", "padded HEADERS of nothing",
        raw(HEADERS, b"", BOTH | PADDED, 1), SIZE),
    Bad("6.2", "half a priority",
        raw(HEADERS, b"\0\0\0", BOTH | WITH_PRIORITY, 1), SIZE),
    Bad("6.3", "PRIORITY of stream 0", raw(PRIORITY, b"\0" * 5), PROTOCOL),
    Bad("6.3", "PRIORITY of another length", raw(PRIORITY, b"\0" * 4, 0, 1), SIZE),
    Bad("6.4", "RST_STREAM of stream 0", raw(RST_STREAM, b"\0" * 4), PROTOCOL),
    Bad("6.4", "RST_STREAM of another length",
        OPEN + raw(RST_STREAM, b"\0" * 3, 0, 1), SIZE, heads=1),
    Bad("6.5", "SETTINGS of a stream", raw(SETTINGS, b"", 0, 1), PROTOCOL),
    Bad("6.5", "SETTINGS of another length", raw(SETTINGS, b"\0" * 5), SIZE),
    Bad("6.5", "an ACK with settings", raw(SETTINGS, b"\0" * 6, ENDS), SIZE),
    Bad("6.5.2", "push neither on nor off", settings(enable_push=2), PROTOCOL),
    Bad("6.5.2", "a window beyond 2^31-1", settings(initial_window_size=2**31), FLOW),
    Bad("6.5.2", "frames that are too small", settings(max_frame_size=16383), PROTOCOL),
    Bad("6.5.2", "frames that are too large", settings(max_frame_size=2**24), PROTOCOL),
    Bad("6.6", "a push", PushPromiseFrame(1, 2, BLOCK, flags=["END_HEADERS"])
        .serialize(), PROTOCOL),
    Bad("8.4", "a push inside a request",
        OPEN + raw(PUSH_PROMISE, b"\0\0\0\x02" + BLOCK, 0, 1), PROTOCOL, heads=1),
    Bad("6.7", "PING of a stream", raw(PING, b"\0" * 8, 0, 1), PROTOCOL),
    Bad("6.7", "PING of another length", raw(PING, b"\0" * 7), SIZE),
    Bad("6.8", "GOAWAY of a stream", OPEN + raw(GOAWAY, b"\0" * 8, 0, 1), PROTOCOL,
        heads=1),
    Bad("6.8", "GOAWAY of another length", OPEN + raw(GOAWAY, b"\0" * 7), SIZE,
        heads=1),
    Bad("6.9", "an increment of 0 for the connection", window(0, 0), PROTOCOL),
    Bad("6.9", "WINDOW_UPDATE of another length",
        raw(WINDOW_UPDATE, b"\0\0\0\1\0"), SIZE),
    Bad("6.9.1", "a window of the connection beyond 2^31-1",
        window(0, 2**31 - 1), FLOW),
    Bad("6.9.2", "a window of a stream beyond 2^31-1 by the settings",
        OPEN + window(1, 1) + settings(initial_window_size=2**31 - 1), FLOW, heads=1),
    Bad("6.9.1", "more than the window of a stream",
        OPEN + data(1, b"x" * 16384) * 4, FLOW, heads=1, is_read=False),
    Bad("6.9.1", "more than the window of a stream, in padding",
        OPEN + raw(DATA, b"\xff" + b"\0" * 255, PADDED, 1) * 256, FLOW, heads=1,
        is_read=False),
    Bad("6.10", "CONTINUATION without HEADERS",
        raw(CONTINUATION, BLOCK, ENDS_BLOCK, 1), PROTOCOL),
    Bad("6.10", "CONTINUATION behind END_HEADERS",
        OPEN + raw(CONTINUATION, b"", ENDS_BLOCK, 1), PROTOCOL, heads=1),
    Bad("6.10", "CONTINUATION of another stream",
        in_pieces(1, BLOCK, 3)[:12] + raw(CONTINUATION, b"", ENDS_BLOCK, 3), PROTOCOL),
    Bad("6.10", "CONTINUATION of stream 0",
        in_pieces(1, BLOCK, 3)[:12] + raw(CONTINUATION, b"", ENDS_BLOCK), PROTOCOL),
    # A stream error by section 8.1, as the next one; the library knows no way back.
    Bad("8.1", "trailers that do not end the stream",
        OPEN + headers(1, TRAILERS, end=False), PROTOCOL, heads=1),
    Bad("10.5.1", "a header block that is too long",
        in_pieces(1, b"\0" * 70_000, 16_000, 32_000, 48_000, 64_000), CALM),
    Bad("10.5.1", "a header list that is too long, compressed",
        raw(HEADERS, block(((b"x-a", b"b" * 4000),)).replace(b"\x10", b"\x40", 1)
            + b"\xbe" * 20, BOTH, 1), CALM),
    Bad("10.5", "a header block of very many frames",
        in_pieces(1, BLOCK, *[0] * 33), CALM),
    Bad("7541 2.3.3", "an index beyond the table", raw(HEADERS, b"\xff\x10", BOTH, 1),
        COMPRESSION),
    Bad("7541 6.1", "the index 0", raw(HEADERS, b"\x80", BOTH, 1), COMPRESSION),
    Bad("7541 5.1", "an integer without an end",
        raw(HEADERS, b"\xff" + b"\x80" * 100, BOTH, 1), COMPRESSION),
    Bad("7541 5.2", "a string longer than the block",
        raw(HEADERS, b"\x00\x05ab", BOTH, 1), COMPRESSION),
    Bad("7541 5.2", "the end of a Huffman code as a symbol",
        raw(HEADERS, b"\x00\x84\xff\xff\xff\xff\x00", BOTH, 1), COMPRESSION),
    Bad("7541 5.2", "Huffman padding of zeros",
        raw(HEADERS, b"\x00\x81\x18\x01b", BOTH, 1), COMPRESSION),
    Bad("7541 6.3", "a table larger than was allowed",
        raw(HEADERS, b"\x3f\xe2\x1f" + BLOCK, BOTH, 1), COMPRESSION),
    Bad("7541 4.2", "a change of the table behind a field",
        raw(HEADERS, BLOCK + b"\x20", BOTH, 1), COMPRESSION),
)  # fmt: skip
