"""How the reader goes from one response to the next, and how requests are written."""

from __future__ import annotations

import gc
import weakref

from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.wire.http1_response import ResponseReader, encode_request
from tests.wire.case import HELLO, ok
from tests.wire.conftest import ReadResponses
from tests.wire.reading import Responses

SIZED = ok(b"Content-Length: 5", body=b"hello")
CHUNKED = ok(b"Transfer-Encoding: chunked", body=HELLO)
NO_CONTENT = ok(b"Transfer-Encoding: chunked", line=b"HTTP/1.1 204 No Content")


def test_a_connection_carries_one_response_after_the_other() -> None:
    found = Responses(asked=5)
    for data in (SIZED, CHUNKED, NO_CONTENT, CHUNKED, SIZED):
        found.feed(data)
    assert found.bodies == [b"hello", b"hello", b"", b"hello", b"hello"]
    assert found.is_reusable


def test_fields_named_by_connection_are_gone(read_responses: ReadResponses) -> None:
    found = read_responses(
        ok(b"Connection: X-Hop", b"x-hop: 1", b"keep: 2", b"Content-Length: 0")
    )
    _, headers, _ = found.seen[0]
    assert (b"x-hop", b"1") not in headers
    assert (b"keep", b"2") in headers


def test_repeated_fields_are_all_kept(read_responses: ReadResponses) -> None:
    found = read_responses(
        ok(b"Set-Cookie: a", b"set-cookie:  b ", b"Content-Length: 0")
    )
    _, headers, _ = found.seen[0]
    assert headers[:2] == [(b"set-cookie", b"a"), (b"set-cookie", b"b")]


def test_fields_of_an_interim_response_are_not_the_final_ones(
    read_responses: ReadResponses,
) -> None:
    found = read_responses(
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + ok(b"Content-Length: 0")
    )
    assert [headers for _, headers, _ in found.seen] == [[(b"content-length", b"0")]]


def test_trailers_never_become_header_fields(read_responses: ReadResponses) -> None:
    found = read_responses(
        ok(b"Transfer-Encoding: chunked", body=b"0\r\nx-smg-error-code: y\r\n\r\n")
    )
    assert [name for name, _ in found.seen[0][1]] == [b"transfer-encoding"]


def test_bytes_nobody_asked_for_are_malformed() -> None:
    found = Responses().feed(SIZED)
    assert found.is_reusable
    found.feed(b"x")
    assert not found.is_reusable
    assert found.reason == "bytes without a request"


def test_every_read_of_a_stream_is_passed_on_at_once() -> None:
    found = Responses().feed(ok(b"Transfer-Encoding: chunked"))
    assert (len(found.seen), found.pieces) == (1, 0)
    found.feed(b"3\r\nabc\r\n", b"1\r\nd\r\n2\r\nef\r\n", b"2\r\ng")
    assert found.bodies == [b"abcdefg"]
    assert found.pieces == 3


def test_a_large_body_is_not_copied_together() -> None:
    piece = b"x" * 100_000
    found = Responses().feed(ok(b"Content-Length: 300000"), piece, piece, piece)
    assert found.pieces == 3
    assert found.ended == 1


def test_a_reader_dropped_inside_a_body_is_no_garbage_cycle() -> None:
    class Listener:
        def on_head(self, head: ResponseHead) -> None: ...

        def on_body(self, data: bytes, end: bool) -> None: ...

    listener = Listener()
    reader = ResponseReader(listener)
    reader.expect()
    reader.feed(ok(b"Transfer-Encoding: chunked", body=b"5\r\nhe"))
    is_alive = weakref.ref(listener)
    gc.disable()
    try:
        del reader, listener
        assert is_alive() is None
    finally:
        gc.enable()


def test_a_request_is_written_in_the_contracts_order() -> None:
    request = WorkerRequest(
        b"POST",
        b"/v1/chat/completions",
        [(b"content-type", b"application/json"), (b"content-length", b"2")],
    )
    assert encode_request(request, b"w:1") == (
        b"POST /v1/chat/completions HTTP/1.1\r\n"
        b"content-type: application/json\r\ncontent-length: 2\r\n"
        b"accept: */*\r\nhost: w:1\r\n\r\n"
    )


def test_eof_of_an_idle_connection_completes_nothing() -> None:
    assert not ResponseReader(Responses()).eof()


def test_close_forgets_a_body_that_broke_off() -> None:
    found = Responses().feed(ok(b"Transfer-Encoding: chunked"), b"5\r\nhe")
    found.reader.close()
    found.reader.close()
    assert not found.reader.eof()
    assert found.bodies == [b"he"]
