"""The echoing realtime session: smgproxy/simulated/realtime.py."""

import json

import pytest
from websockets.asyncio.client import connect
from websockets.typing import Subprotocol

from smgproxy.simulated.server import SimulatedServer
from tests.simulated.serving import RawClient, serve


def test_a_session_says_hello_and_echoes() -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        address = url.replace("http", "ws") + "/v1/realtime?model=m"
        async with connect(address, subprotocols=[Subprotocol("realtime")]) as socket:
            hello = json.loads(await socket.recv())
            assert hello["type"] == "session.created"
            assert hello["session"]["model"]
            assert socket.subprotocol == "realtime"
            big = b"*" * 900_000
            for message in ('{"type":"response.create"}', b"\0audio", "", big):
                await socket.send(message)
                assert await socket.recv() == message
            await (await socket.ping())
        assert socket.close_code == 1000

    serve(scenario)


@pytest.mark.parametrize("path", ["/v1/realtime", "/v1/chat/completions"])
def test_what_is_no_session_is_answered_as_http(path: str) -> None:
    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            client.writer.write(f"GET {path} HTTP/1.1\r\nhost: sim\r\n\r\n".encode())
            assert (await client.response()).status in (404, 405)

    serve(scenario)
