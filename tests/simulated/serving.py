"""A simulated worker for one test, and the proof that it left nothing behind."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import httptools
import uvloop

from smgproxy.simulated.options import SimulatedOptions
from smgproxy.simulated.server import SimulatedServer

AT_ONCE = SimulatedOptions(ttft_ms=0, tokens_per_second=0)
DEADLINE_SECS = 10.0

Scenario = Callable[[SimulatedServer, str], Awaitable[None]]


def serve(scenario: Scenario, options: SimulatedOptions = AT_ONCE) -> None:
    """Play a scenario against a listening worker; it must end with nothing open."""

    async def play() -> None:
        server = SimulatedServer(options)
        url = await server.start()
        try:
            await asyncio.wait_for(scenario(server, url), DEADLINE_SECS)
            await eventually(lambda: not server.worker.connections)
            assert server.worker.batch.running == 0
            assert not server.worker.batch.is_armed
        finally:
            await server.close()
        # A client's abandoned generators are closed by tasks of the loop's own.
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    uvloop.run(play())


async def eventually(is_true: Callable[[], object]) -> None:
    """Wait for a fact, until a deadline."""
    async with asyncio.timeout(DEADLINE_SECS):
        while not is_true():
            await asyncio.sleep(0.002)


class Response:
    """One parsed response of a raw conversation."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[bytes, bytes] = {}
        self.body = b""
        self.is_whole = False
        self.parser = httptools.HttpResponseParser(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.status = self.parser.get_status_code()
        self.is_whole = True


class RawClient:
    """A client that says exactly the bytes that it is told to say."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rsplit(":", 1)[1])

    async def __aenter__(self) -> "RawClient":
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port
        )
        return self

    async def __aexit__(self, *exc: object) -> None:
        with closing(self.writer):
            pass
        await self.writer.wait_closed()

    async def response(self) -> Response:
        """Read one response that ends by its own framing."""
        response = Response()
        while not response.is_whole:
            # A byte at a time: the next response on the wire is left alone.
            byte = await self.reader.readexactly(1)
            response.parser.feed_data(byte)
        return response

    async def is_closed(self) -> bool:
        """Whether the worker has nothing more to say, ever."""
        return await self.reader.read(1) == b""


def post(path: str, body: bytes, *lines: str) -> bytes:
    """A sized POST."""
    head = "".join(f"{line}\r\n" for line in lines)
    size = len(body)
    start = f"POST {path} HTTP/1.1\r\nhost: sim\r\ncontent-length: {size}\r\n"
    return f"{start}{head}\r\n".encode() + body
