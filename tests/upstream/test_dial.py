"""Dials that succeed too late, or for nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
import uvloop

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import SendFailed
from smgproxy.core.message import WorkerRequest
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.pool import WorkerPool
from smgproxy.upstream.websocket import WorkerSocket, WorkerSockets


def secure(offers: Sequence[str]) -> ssl.SSLContext:
    return ssl.create_default_context()


def give_up(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[SharedConnection] | type[WorkerSocket],
    dial: Callable[[asyncio.AbstractEventLoop, Worker], Awaitable[object]],
) -> None:
    """Cancel a dial when its connection is told that it is open; all must be well.

    uvloop then closes the socket without a word to the connection.
    """
    faults: list[dict[str, Any]] = []
    connection_made = kind.connection_made

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, fault: faults.append(fault))
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        def made(self: Any, transport: asyncio.BaseTransport) -> None:
            request.cancel()
            connection_made(self, transport)

        monkeypatch.setattr(kind, "connection_made", made)
        worker = Worker("id", f"http://127.0.0.1:{port}")
        request = asyncio.ensure_future(dial(loop, worker))
        await asyncio.wait([request], timeout=5)
        turn = loop.create_future()
        loop.call_soon(loop.call_soon, turn.set_result, None)
        await turn
        server.close()
        assert request.cancelled()

    uvloop.run(scene())
    assert not faults


def test_one_by_http2_that_is_given_up_leaves_no_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools: list[WorkerPool] = []

    def dial(loop: asyncio.AbstractEventLoop, worker: Worker) -> Awaitable[object]:
        worker.http2 = True
        pools.append(WorkerPool(worker, loop, secure))
        return pools[0].connect(monotonic() + 5)

    give_up(monkeypatch, SharedConnection, dial)
    assert pools[0].counts() == (0, 0)


def test_one_of_a_realtime_session_that_is_given_up_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[WorkerSockets] = []

    def dial(loop: asyncio.AbstractEventLoop, worker: Worker) -> Awaitable[object]:
        found.append(WorkerSockets(loop, secure))
        request = WorkerRequest(b"GET", b"/v1/realtime", [])
        return found[0].open(worker, request, 5)

    give_up(monkeypatch, WorkerSocket, dial)
    assert len(found[0]) == 0


def test_a_connection_that_is_lost_at_once_is_a_failed_send(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def dialled(
        self: WorkerSockets, worker: Worker, timeout_secs: float
    ) -> WorkerSocket:
        socket = WorkerSocket(self, worker, asyncio.get_running_loop())
        socket.connection_lost(None)
        return socket

    async def scene() -> None:
        sockets = WorkerSockets(asyncio.get_running_loop(), secure)
        request = WorkerRequest(b"GET", b"/v1/realtime", [])
        with pytest.raises(SendFailed):
            await sockets.open(Worker("id", "http://127.0.0.1:1"), request, 5)
        assert len(sockets) == 0

    monkeypatch.setattr(WorkerSockets, "_dial", dialled)
    uvloop.run(scene())
