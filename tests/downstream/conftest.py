"""What the tests of client connections share."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.fakes.clock import FakeClock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    made = FakeClock()
    rooms = (
        *("downstream.http1", "downstream.http1_response"),
        *("downstream.http2", "wire.http2_output", "downstream.http2_stream"),
    )
    made.stand_in(monkeypatch, *(f"smgproxy.{room}" for room in rooms))
    return made


@pytest.fixture
def sock() -> Iterator[socket.socket]:
    """A socket whose peer has not hung up, for the sweep to ask."""
    ours, peers = socket.socketpair()
    with ours, peers:
        yield ours
