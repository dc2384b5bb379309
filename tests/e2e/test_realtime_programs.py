"""Sessions between programs of others: the websockets library, and ws of Node."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.e2e.realtime_worker import played, url
from tests.e2e.stage import Stage
from tests.fakes.certificates import Authority, Pair

NODE = Path(__file__).parent / "node"
GUIDE = Path(__file__).parents[2] / "docs" / "realtime.md"


@pytest.mark.parametrize("compression", [None, "deflate"])
def test_the_websockets_library_talks_to_itself(compression: str | None) -> None:
    async def scene(stage: Stage) -> None:
        async with connect(
            url(stage),
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

    played(scene)


def test_codes_and_reasons_reach_the_api() -> None:
    async def scene(stage: Stage) -> None:
        for message, code, reason in (
            ("close me", 4001, "as you wish"),
            ("die", 1011, "the connection to the worker is lost"),
        ):
            async with connect(url(stage)) as socket:
                await socket.send(message)
                with pytest.raises(ConnectionClosed) as caught:
                    await socket.recv()
                received = caught.value.rcvd
                assert received is not None
                assert (received.code, received.reason) == (code, reason)

    played(scene)


def test_the_openai_client_has_a_session() -> None:
    async def scene(stage: Stage) -> None:
        async with AsyncOpenAI(
            api_key="sk-worker", base_url=f"http://127.0.0.1:{stage.port}/v1"
        ) as client:
            async with client.realtime.connect(model="rt/model") as session:
                await session.input_audio_buffer.append(audio="AAAA")
                # The worker echoes, so what was asked comes back.
                event = json.loads(await session.recv_bytes())
                assert event == {"type": "input_audio_buffer.append", "audio": "AAAA"}

    played(scene)


def test_the_python_example_of_the_guide_works() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    heard: list[str | None] = []

    async def greet(socket: ServerConnection) -> None:
        assert socket.request is not None
        heard.append(socket.request.headers.get("Authorization"))
        await socket.send('{"type":"session.created"}')
        await socket.send(f"heard {await socket.recv()!r}")
        await socket.wait_closed()

    async def scene(stage: Stage) -> None:
        guided = example.replace(
            "ws://127.0.0.1:30000/v1/realtime?model=sim-model", url(stage)
        )
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", guided), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await child.communicate()
        said = '{"type": "response.create"}'
        assert out.decode().splitlines() == ["session.created", f"heard {said!r}"]

    played(scene, script=greet)
    assert heard == ["Bearer your-api-key"]


def test_a_refusal_is_an_http_status() -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(InvalidStatus) as caught:
            await connect(url(stage).replace("rt/model", "nobody"))
        assert caught.value.response.status_code == 404

    played(scene)


def test_tls_on_both_sides(
    https: dict[str, Any], authority: Authority, server: Pair
) -> None:
    async def scene(stage: Stage) -> None:
        context = authority.trusting()
        async with connect(url(stage, "wss"), ssl=context, max_size=None) as socket:
            big = os.urandom(3_000_000)
            await socket.send(big)
            assert await socket.recv() == big
        assert socket.close_code == 1000
        async with connect(url(stage, "wss"), ssl=context) as socket:
            await socket.send("die")
            with pytest.raises(ConnectionClosed) as caught:
                await socket.recv()
            assert caught.value.rcvd is not None and caught.value.rcvd.code == 1011

    tls = {**https, "ca_cert_paths": (authority.path,)}
    played(scene, server, tls=tls)


def test_many_sessions_lose_and_reorder_nothing() -> None:
    async def scene(stage: Stage) -> None:
        async def one(number: int) -> None:
            async with connect(url(stage), compression=None) as socket:
                sent = [f"{number}-{at}-" + "x" * 4000 for at in range(50)]

                async def send() -> None:
                    for message in sent:
                        await socket.send(message)

                sending = asyncio.create_task(send())
                assert [await socket.recv() for _ in sent] == sent
                await sending

        await asyncio.gather(*[one(number) for number in range(40)])
        assert stage.gateway.realtime.stats.closes == {("client", "1000"): 40}

    played(scene)


def test_the_ws_client_of_node() -> None:
    node = shutil.which("node")
    if node is None or not (NODE / "node_modules" / "ws").is_dir():
        pytest.skip("ws is not installed: npm install in tests/e2e/node")
    found: dict[str, Any] = {}

    async def scene(stage: Stage) -> None:
        child = await asyncio.create_subprocess_exec(
            *(node, "realtime.mjs", url(stage)),
            cwd=NODE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await child.communicate()
        assert child.returncode == 0, error.decode()
        found.update(json.loads(out))

    played(scene)
    assert found == {
        "protocol": "realtime",
        "echoed": ["hello", "binary:3"],
        "pong": "ping",
        "close": [4001, "as you wish"],
        "lost": [1011, "the connection to the worker is lost"],
        "refused": 404,
    }
