"""A worker's WebSocket connection without a socket; the tests play the worker."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from smgproxy.core.turns import LARGE_READ_BYTES
from smgproxy.upstream.websocket import WorkerSocket, WorkerSockets
from tests.fakes.transport import FakeTransport
from tests.upstream.stage import FakeLoop, Plant


def test_a_full_read_lets_others_read_before_the_next(
    loop: FakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "call_later", lambda *_: None, raising=False)
    plant = Plant(loop)
    as_loop = cast(asyncio.AbstractEventLoop, loop)
    sockets = WorkerSockets(as_loop, plant.pool._secure)
    socket = WorkerSocket(sockets, plant.worker, as_loop)
    transport = FakeTransport(socket)
    socket._is_open = True
    transport.peer_sends(b"x" * LARGE_READ_BYTES)
    assert not transport.is_reading()
    loop.turn()
    assert transport.is_reading()
