"""One case of the HTTP/2 corpus, and the pieces that several are made of."""

from __future__ import annotations

from typing import Any, NamedTuple

from h2.errors import ErrorCodes
from hpack import Encoder

from tests.downstream.h2_stage import (
    HELLO,
    REQUEST,
    block,
    headers,
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
