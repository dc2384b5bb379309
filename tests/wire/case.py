"""One case of a corpus, and the few pieces its bytes are written with."""

from __future__ import annotations

from typing import NamedTuple


class Served(NamedTuple):
    """A request that is answered, as the rest of the gateway sees it."""

    line: str  # method and target
    body: bytes = b""
    keeps_alive: bool = True
    expects_continue: bool = False


class RequestCase(NamedTuple):
    """A client's bytes and what becomes of them.

    ``refused``: the status the connection is closed with, 0 when it stays open.
    ``ends``: False when the last request served still waits for bytes.
    """

    name: str
    data: bytes
    served: tuple[Served, ...] = ()
    refused: int = 0
    ends: bool = True


class ResponseCase(NamedTuple):
    """A worker's bytes and how they are relayed.

    ``status`` and ``body`` as relayed, ``length`` the announced size (None: by its
    end). A ``malformed`` response is a 502, or breaks off when its head is out.
    """

    name: str
    data: bytes
    status: int = 200
    body: bytes = b""
    length: int | None = None
    reusable: bool = True
    malformed: bool = False
    complete: bool = True
    eof: bool = False


def post(*fields: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    """``POST /a`` with a Host and these field lines."""
    lines = [b"POST /a HTTP/" + version, b"Host: h", *fields, b"", body]
    return b"\r\n".join(lines)


def get(*fields: bytes, target: bytes = b"/a", host: bytes | None = b"h") -> bytes:
    """``GET`` with a Host and these field lines."""
    lines = [b"GET " + target + b" HTTP/1.1"]
    if host is not None:
        lines.append(b"Host: " + host)
    return b"\r\n".join([*lines, *fields, b"", b""])


def chunked(body: bytes, *fields: bytes) -> bytes:
    """``POST /a`` whose body is in the chunked coding, given coded."""
    return post(*fields, b"Transfer-Encoding: chunked", body=body)


def ok(*fields: bytes, body: bytes = b"", line: bytes = b"HTTP/1.1 200 OK") -> bytes:
    """A response with these field lines."""
    return b"\r\n".join([line, *fields, b"", body])


# A second request behind the first: what a smuggler would have read as its own.
NEXT = get(target=b"/next")
NEXT_SERVED = Served("GET /next")
# The usual request and what it is served as.
GET_A = Served("GET /a")
POST_HELLO = Served("POST /a", b"hello")
HELLO = b"5\r\nhello\r\n0\r\n\r\n"
