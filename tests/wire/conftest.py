"""Every wire test runs three ways: whole, a byte at a time, cut at each place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from smgproxy.wire.http1_request import HeadLimits
from tests.wire.reading import WAYS, Pieces, Requests, Responses


class ReadRequests(Protocol):
    def __call__(self, data: bytes, limits: HeadLimits | None = None) -> Requests: ...


class ReadResponses(Protocol):
    def __call__(
        self, data: bytes, *, asked: int = 1, eof: bool = False
    ) -> Responses: ...


@pytest.fixture(params=WAYS)
def cut(request: pytest.FixtureRequest) -> Callable[[bytes], Iterator[Pieces]]:
    """How bytes fall into reads."""
    return WAYS[request.param]


@pytest.fixture
def read_requests(cut: Callable[[bytes], Iterator[Pieces]]) -> ReadRequests:
    """What a client's bytes are taken for; the same for every place of a cut."""

    def read(data: bytes, limits: HeadLimits | None = None) -> Requests:
        expected = Requests(limits).feed(data).summary()
        for pieces in cut(data):
            found = Requests(limits).feed(*pieces)
            assert found.summary() == expected, [len(piece) for piece in pieces[:2]]
        return found

    return read


@pytest.fixture
def read_responses(cut: Callable[[bytes], Iterator[Pieces]]) -> ReadResponses:
    """What a worker's bytes are taken for; the same for every place of a cut."""

    def read(data: bytes, *, asked: int = 1, eof: bool = False) -> Responses:
        expected = Responses(asked).feed(data, eof=eof).summary()
        for pieces in cut(data):
            found = Responses(asked).feed(*pieces, eof=eof)
            assert found.summary() == expected, [len(piece) for piece in pieces[:2]]
        return found

    return read
