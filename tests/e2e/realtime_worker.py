"""A realtime worker that is a server of the websockets library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from smgproxy.fleet.worker import Worker, WorkerState
from tests.e2e.stage import Stage, play
from tests.fakes.certificates import Pair

Serve = Callable[[ServerConnection], Awaitable[None]]


async def echo(socket: ServerConnection) -> None:
    """Send every message back; close or drop the connection when told to."""
    try:
        async for message in socket:
            if message == "close me":
                await socket.close(4001, "as you wish")
            elif message == "die":
                socket.transport.abort()
            else:
                await socket.send(message)
    except ConnectionClosed:
        pass


def url(stage: Stage, scheme: str = "ws") -> str:
    """Where a client opens its session."""
    return f"{scheme}://127.0.0.1:{stage.port}/v1/realtime?model=rt/model"


def played(
    scene: Callable[[Stage], Awaitable[None]],
    pair: Pair | None = None,
    script: Serve = echo,
    **rooms: Any,
) -> None:
    """Run a scene with this worker alone; ``pair``: it speaks TLS."""

    async def whole(stage: Stage) -> None:
        server = await serve(
            script,
            "127.0.0.1",
            0,
            select_subprotocol=lambda _, offered: offered[0] if offered else None,
            max_size=None,
            ssl=None if pair is None else pair.serving(),
        )
        async with server:
            port = next(iter(server.sockets)).getsockname()[1]
            _register(stage, f"http{'s' if pair else ''}://127.0.0.1:{port}")
            await scene(stage)

    play(whole, **rooms)


def _register(stage: Stage, address: str) -> None:
    worker = Worker("id-ws", address)
    worker.models = [{"id": "rt/model"}]
    worker.labels = {"realtime": "true"}
    worker.state = WorkerState.READY
    stage.gateway.registry.add(worker)
