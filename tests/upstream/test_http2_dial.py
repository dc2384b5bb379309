"""Dialling a worker that speaks HTTP/2, by uvloop."""

from __future__ import annotations

import asyncio
import ssl
from typing import Any

import uvloop

from smgproxy.core.clock import monotonic
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.pool import WorkerPool


def test_a_dial_given_up_as_it_succeeds_leaves_no_error() -> None:
    """The socket is then closed without a word to the connection."""

    faults: list[dict[str, Any]] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda loop, fault: faults.append(fault))
        server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        worker = Worker("id", f"http://127.0.0.1:{port}")
        worker.http2 = True

        class GivenUp(SharedConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                request.cancel()
                super().connection_made(transport)

        class Pool(WorkerPool):
            def _protocol(self, alpn: str | None) -> SharedConnection:
                return GivenUp(self)

        pool = Pool(worker, loop, lambda offers: ssl.create_default_context())
        request = loop.create_task(pool.connect(monotonic() + 5))
        await asyncio.wait([request], timeout=5)
        turn = loop.create_future()
        loop.call_soon(loop.call_soon, turn.set_result, None)
        await turn
        server.close()
        assert request.cancelled()
        assert pool.counts() == (0, 0)

    uvloop.run(scene())
    assert not faults
