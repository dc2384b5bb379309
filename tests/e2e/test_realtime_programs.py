"""Sessions between programs of others: the websockets library, and ws of Node."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from smgproxy.fleet.worker import Worker, WorkerState
from tests.e2e.stage import Stage, play
from tests.fakes.certificates import Authority, Pair

NODE = Path(__file__).parent / "node"


async def _echo(socket: ServerConnection) -> None:
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


def _register(stage: Stage, url: str) -> None:
    worker = Worker("id-ws", url)
    worker.models = [{"id": "rt/model"}]
    worker.labels = {"realtime": "true"}
    worker.state = WorkerState.READY
    stage.gateway.registry.add(worker)


def _played(scene: Any, pair: Pair | None = None, **rooms: Any) -> None:
    """Run a scene with one worker that is a server of the library."""

    async def whole(stage: Stage) -> None:
        server = await serve(
            _echo,
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


def _url(stage: Stage, scheme: str = "ws") -> str:
    return f"{scheme}://127.0.0.1:{stage.port}/v1/realtime?model=rt/model"


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_the_websockets_library_talks_to_itself(compression: str | None) -> None:
    async def scene(stage: Stage) -> None:
        async with connect(
            _url(stage),
            compression=compression,
            max_size=None,
            subprotocols=[Subprotocol("realtime")],
        ) as socket:
            assert socket.subprotocol == "realtime"
            assert bool(socket.protocol.extensions) is bool(compression)
            big = os.urandom(3_000_000)
            for message in ("text", "ä" * 1000, b"", b"bytes", big):
                await socket.send(message)
                assert await socket.recv() == message
            await socket.send(["in", " ", "pieces"])
            assert await socket.recv() == "in pieces"
            await (await socket.ping())
        assert (socket.close_code, socket.close_reason) == (1000, "")

    _played(scene)


def test_codes_and_reasons_reach_the_api() -> None:
    async def scene(stage: Stage) -> None:
        for message, code, reason in (
            ("close me", 4001, "as you wish"),
            ("die", 1011, "the connection to the worker is lost"),
        ):
            async with connect(_url(stage)) as socket:
                await socket.send(message)
                with pytest.raises(ConnectionClosed) as caught:
                    await socket.recv()
                received = caught.value.rcvd
                assert received is not None
                assert (received.code, received.reason) == (code, reason)

    _played(scene)


def test_a_refusal_is_an_http_status() -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(InvalidStatus) as caught:
            await connect(_url(stage).replace("rt/model", "nobody"))
        assert caught.value.response.status_code == 404

    _played(scene)


def test_tls_on_both_sides(
    https: dict[str, Any], authority: Authority, server: Pair
) -> None:
    async def scene(stage: Stage) -> None:
        context = authority.trusting()
        async with connect(_url(stage, "wss"), ssl=context, max_size=None) as socket:
            big = os.urandom(3_000_000)
            await socket.send(big)
            assert await socket.recv() == big
        assert socket.close_code == 1000
        async with connect(_url(stage, "wss"), ssl=context) as socket:
            await socket.send("die")
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd is not None and caught.value.rcvd.code == 1011

    tls = {**https, "ca_cert_paths": (authority.path,)}
    _played(scene, server, tls=tls)


def test_many_sessions_lose_and_reorder_nothing() -> None:
    async def scene(stage: Stage) -> None:
        async def one(number: int) -> None:
            async with connect(_url(stage), compression=None) as socket:
                sent = [f"{number}-{at}-" + "x" * 4000 for at in range(50)]

                async def send() -> None:
                    for message in sent:
                        await socket.send(message)

                sending = asyncio.create_task(send())
                assert [await socket.recv() for _ in sent] == sent
                await sending

        await asyncio.gather(*[one(number) for number in range(40)])
        assert stage.gateway.realtime.stats.closes == {("client", "1000"): 40}

    _played(scene)


def test_the_ws_client_of_node() -> None:
    node = shutil.which("node")
    if node is None or not (NODE / "node_modules" / "ws").is_dir():
        pytest.skip("ws is not installed: npm install in tests/e2e/node")
    found: dict[str, Any] = {}

    async def scene(stage: Stage) -> None:
        child = await asyncio.create_subprocess_exec(
            *(node, "realtime.mjs", _url(stage)),
            cwd=NODE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await child.communicate()
        assert child.returncode == 0, error.decode()
        found.update(json.loads(out))

    _played(scene)
    assert found == {
        "protocol": "realtime",
        "echoed": ["hello", "binary:3"],
        "pong": "ping",
        "close": [4001, "as you wish"],
        "lost": [1011, "the connection to the worker is lost"],
        "refused": 404,
    }
