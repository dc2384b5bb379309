"""Feeds the HTTP/1.1 readers as a connection would, and writes down what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from smgproxy.core.message import Headers, RequestHead, ResponseHead
from smgproxy.wire.http1 import HEAD_END, BadMessage
from smgproxy.wire.http1_request import HeadLimits, RequestReader
from smgproxy.wire.http1_response import ResponseReader

Pieces = list[bytes]


def whole(data: bytes) -> Iterator[Pieces]:
    """Everything in one read."""
    yield [data]


def byte_at_a_time(data: bytes) -> Iterator[Pieces]:
    """A read for each byte."""
    yield [data[at : at + 1] for at in range(len(data))]


def cut_everywhere(data: bytes) -> Iterator[Pieces]:
    """Two reads, cut at each place of a small message, of the head of a large one."""
    end = data.find(HEAD_END) + len(HEAD_END)
    last = len(data) if len(data) <= 400 or end < len(HEAD_END) else end
    # A head of many kilobytes is cut at its edges and now and then between.
    step = max(1, last // 400)
    for at in range(1, last, step):
        yield [data[:at], data[at:]]
    yield [data]


WAYS: dict[str, Callable[[bytes], Iterator[Pieces]]] = {
    "whole": whole,
    "byte_at_a_time": byte_at_a_time,
    "cut_everywhere": cut_everywhere,
}


@dataclass
class Request:
    """One request as the reader told it, its body joined."""

    head: RequestHead
    body: bytes = b""
    is_ended: bool = False
    pieces: int = field(default=0, compare=False)

    @property
    def line(self) -> str:
        """Method and target as the rest of the gateway sees them."""
        query = f"?{self.head.query}" if self.head.query else ""
        return f"{self.head.method} {self.head.path}{query}"


class Requests:
    """What one client connection brought: requests, then perhaps a refusal."""

    def __init__(self, limits: HeadLimits | None = None) -> None:
        self.reader = RequestReader(self, limits or HeadLimits())
        self.seen: list[Request] = []
        self.refused = 0
        self.reason = ""

    def feed(self, *pieces: bytes) -> Requests:
        """Each piece is one read; what lies behind a message is read at once."""
        try:
            for piece in pieces:
                while piece:
                    piece = self.reader.feed(piece)
        except BadMessage as error:
            self.refused = error.status
            self.reason = error.reason
        return self

    def on_head(self, head: RequestHead) -> None:
        assert not self.seen or self.seen[-1].is_ended, "a head inside a body"
        self.seen.append(Request(head))

    def on_body(self, data: bytes, end: bool) -> None:
        request = self.seen[-1]
        assert not request.is_ended, "a body after its end"
        assert data or end, "a piece of nothing"
        request.body += data
        request.is_ended = end
        request.pieces += 1

    def summary(self) -> tuple[object, ...]:
        """What must not depend on how the bytes were cut into reads."""
        told = [
            (
                request.line,
                request.head.headers,
                request.head.content_length,
                request.head.keeps_alive,
                request.head.expects_continue,
                # Of a body that breaks off, reads decide how much was passed on.
                request.body if request.is_ended else None,
            )
            for request in self.seen
        ]
        return (told, self.refused)


class Responses:
    """What one worker connection brought, each response asked for in turn."""

    def __init__(self, asked: int = 1) -> None:
        self.reader = ResponseReader(self)
        self.asked = asked
        self.seen: list[tuple[int, Headers, int | None]] = []
        self.bodies: list[bytes] = []
        self.ended = 0
        self.pieces = 0
        self.reason = ""
        self.is_malformed = False  # while a response was awaited or read
        self.is_reusable = False  # after the last response that was asked for
        self._ask()

    def feed(self, *pieces: bytes, eof: bool = False) -> Responses:
        """Each piece is one read; ``eof``: the worker closes behind the last."""
        try:
            for piece in pieces:
                self.reader.feed(piece)
        except BadMessage as error:
            self.reason = error.reason
            self.is_malformed = self.ended < self.asked
            self.is_reusable = False
            return self
        if eof:
            self.reader.eof()
        self.is_reusable = self.reader.is_reusable and self.ended == self.asked
        return self

    def on_head(self, head: ResponseHead) -> None:
        assert len(self.seen) == self.ended, "a head inside a body"
        self.seen.append((head.status, head.headers, head.length))
        self.bodies.append(b"")

    def on_body(self, data: bytes, end: bool) -> None:
        assert len(self.seen) == self.ended + 1, "a body without a head"
        assert data or end, "a piece of nothing"
        self.bodies[-1] += data
        self.pieces += 1
        if end:
            self.ended += 1
            if self.ended < self.asked:
                self._ask()

    def summary(self) -> tuple[object, ...]:
        """What must not depend on how the bytes were cut into reads."""
        return (
            self.seen,
            self.bodies,
            self.ended,
            self.is_malformed,
            self.is_reusable,
        )

    def _ask(self) -> None:
        self.reader.expect()
