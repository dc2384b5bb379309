"""HTTP/1.1, written by generators and read back however it is cut into reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from smgproxy.wire.http1 import BadMessage, ChunkedDecoder
from tests.wire.case import ok
from tests.wire.reading import Requests, Responses

TOKEN_CHARACTERS = "!#$%&'*+-.^_`|~09azAZ"
# Names that mean something to the reader are added by the generator itself.
NAMES = st.text(TOKEN_CHARACTERS, max_size=8).map(lambda name: f"x{name}".encode())
_MIDDLE = st.sampled_from([b"a", b" ", b"\t", b"\xff", b":", b'"', b"~"])
VALUES = st.lists(_MIDDLE, max_size=8).map(b"".join).map(lambda v: v.strip(b" \t"))
BLANKS = st.sampled_from([b"", b" ", b"\t", b" \t "])
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=6)
TARGETS = st.text("/ab%2F.;=&?", max_size=12).map(lambda rest: f"/{rest}")
METHODS = st.sampled_from(["GET", "POST", "DELETE", "PUT", "X-ODD"])
# Blanks around an extension are bad style; llhttp, on the workers' side, refuses them.
EXTENSIONS = st.sampled_from([b"", b";a", b";a=b", b';a="b c"', b";" + b"z" * 90])


@st.composite
def chunked_bodies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A body, and the same in the chunked coding."""
    pieces = draw(st.lists(st.binary(min_size=1, max_size=20), max_size=6))
    coded = b""
    for piece in pieces:
        size = b"0" * draw(st.integers(0, 3)) + b"%x" % len(piece)
        size = size.upper() if draw(st.booleans()) else size
        coded += size + draw(EXTENSIONS) + b"\r\n" + piece + b"\r\n"
    coded += b"0" + draw(EXTENSIONS) + b"\r\n"
    for name, value in draw(st.lists(st.tuples(NAMES, VALUES), max_size=2)):
        coded += name + b":" + value + b"\r\n"
    return b"".join(pieces), coded + b"\r\n"


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, tuple[object, ...]]:
    """A request's bytes, and what it is."""
    method, target = draw(METHODS), draw(TARGETS)
    fields = draw(FIELDS)
    framing = draw(st.sampled_from(["none", "sized", "chunked"]))
    body = draw(st.binary(max_size=40))
    coded = b""
    own: list[tuple[bytes, bytes]] = [(b"Host", b"h:1")]
    if framing == "none":
        body = b""
    elif framing == "sized":
        coded = body
        own.append((b"Content-Length", b"%d" % len(body)))
    else:
        body, coded = draw(chunked_bodies())
        own.append((b"Transfer-Encoding", b"chunked"))
    fields = draw(st.permutations([*fields, *own]))
    head = f"{method} {target} HTTP/1.1\r\n".encode()
    for name, value in fields:
        head += name + b":" + draw(BLANKS) + value + draw(BLANKS) + b"\r\n"
    path, _, query = target.partition("?")
    read = [(name.lower(), value) for name, value in fields]
    blank = draw(st.sampled_from([b"", b"\r\n"]))
    return blank + head + b"\r\n" + coded, (method, path, query, read, body)


@st.composite
def split(draw: st.DrawFn, data: bytes) -> list[bytes]:
    """``data`` in reads of any size."""
    cuts = draw(st.lists(st.integers(1, max(1, len(data) - 1)), max_size=12))
    marks = [0, *sorted(set(cuts)), len(data)]
    return [data[a:b] for a, b in zip(marks, marks[1:]) if a < b]


@given(st.data(), st.lists(requests(), min_size=1, max_size=4))
def test_pipelined_requests_come_out_as_they_were_written(
    data: st.DataObject, written: list[tuple[bytes, tuple[object, ...]]]
) -> None:
    stream = b"".join(raw for raw, _ in written)

    found = Requests().feed(*data.draw(split(stream)))

    assert found.refused == 0, found.reason
    assert all(request.is_ended for request in found.seen)
    assert [
        (one.head.method, one.head.path, one.head.query, one.head.headers, one.body)
        for one in found.seen
    ] == [expected for _, expected in written]


@given(st.data(), chunked_bodies(), st.binary(max_size=9))
def test_chunked_decoder_gives_the_body_and_stops_behind_it(
    data: st.DataObject, written: tuple[bytes, bytes], behind: bytes
) -> None:
    body, coded = written
    decoder = ChunkedDecoder(1024)
    found, read = b"", 0
    for piece in data.draw(split(coded + behind)):
        if not decoder.is_ended:
            decoded, end = decoder.feed(piece)
            found += decoded
            read += end
    assert decoder.is_ended
    assert (found, read) == (body, len(coded))


@given(st.data(), chunked_bodies())
def test_a_worker_chunked_body_comes_out_as_it_was_written(
    data: st.DataObject, written: tuple[bytes, bytes]
) -> None:
    body, coded = written
    stream = ok(b"Transfer-Encoding: chunked", body=coded)
    found = Responses().feed(*data.draw(split(stream)))
    assert (found.bodies, found.ended, found.is_malformed) == ([body], 1, False)


@given(st.data(), requests(), st.binary(min_size=1, max_size=3))
def test_a_damaged_request_is_the_same_however_it_is_cut(
    data: st.DataObject, written: tuple[bytes, object], damage: bytes
) -> None:
    raw, _ = written
    at = data.draw(st.integers(0, len(raw) - 1))
    damaged = raw[:at] + damage + raw[at + len(damage) :]
    expected = Requests().feed(damaged)
    found = Requests().feed(*data.draw(split(damaged)))
    # A head that is cut off may be refused early or still be awaited: never served.
    assert found.summary() == expected.summary()


@given(st.data(), st.binary(max_size=60))
def test_no_bytes_raise_anything_but_bad_message(
    data: st.DataObject, noise: bytes
) -> None:
    Requests().feed(*data.draw(split(noise)))
    Responses().feed(*data.draw(split(noise)))
    try:
        ChunkedDecoder(64).feed(noise)
    except BadMessage:
        pass
