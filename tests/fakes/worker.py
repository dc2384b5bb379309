"""A worker that does exactly what a test tells it to, byte by byte.

Each POST it receives goes to the test's script, which may answer, dawdle, cut the
connection in any place, or send rubbish. GETs are answered as an engine would, so that
probes find a worker.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable

MODEL = "m"
_READ = 256 * 1024


class Connection:
    """The worker's end of one connection, in a script's hands."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.is_closed = False

    async def send(self, data: bytes) -> None:
        """Write, and wait until the socket took it."""
        if self.writer.is_closing():
            raise ConnectionResetError  # uvloop has an error of its own for this
        self.writer.write(data)
        await self.writer.drain()

    async def answer(
        self, body: bytes, status: int = 200, headers: str = "", kind: str = "json"
    ) -> None:
        """A whole, ordinary answer."""
        types = {"json": "application/json", "text": "text/plain", "html": "text/html"}
        await self.send(
            f"HTTP/1.1 {status} Whatever\r\ncontent-type: {types[kind]}\r\n"
            f"content-length: {len(body)}\r\n{headers}\r\n".encode() + body
        )

    async def start_stream(self, headers: str = "") -> None:
        """The head of an event stream."""
        await self.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n" + headers.encode() + b"\r\n"
        )

    async def chunk(self, data: bytes) -> None:
        """One chunk of a stream."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """The last chunk."""
        await self.send(b"0\r\n\r\n")

    def close(self) -> None:
        """Close in good order."""
        self.is_closed = True
        self.writer.close()

    def reset(self) -> None:
        """Close with a reset instead of a FIN."""
        self.is_closed = True
        sock: socket.socket | None = self.writer.get_extra_info("socket")
        if sock is not None:  # else the other side was first
            linger = struct.pack("ii", 1, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()

    async def until_gone(self) -> None:
        """Wait until the gateway drops the connection."""
        try:
            while await self.reader.read(_READ):
                pass
        except ConnectionError:
            pass
        self.is_closed = True


class Received:
    """A request as the worker got it."""

    def __init__(self, method: str, path: str, raw_head: bytes, body: bytes) -> None:
        self.method = method
        self.path = path
        self.raw_head = raw_head
        self.body = body
        self.headers = [
            (name.decode(), value.strip().decode())
            for name, _, value in (
                line.partition(b":") for line in raw_head.split(b"\r\n")[1:-2]
            )
        ]

    def get(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)


Script = Callable[[Connection, Received], Awaitable[None]]


async def say_ok(connection: Connection, request: Received) -> None:
    """The script of a worker that simply works."""
    await connection.answer(b'{"ok":true}')


class FakeWorker:
    """A scripted worker on a loopback port."""

    def __init__(
        self, script: Script = say_ok, tls: ssl.SSLContext | None = None
    ) -> None:
        self.script = script
        self.tls = tls
        self.received: list[Received] = []
        self.probed: list[Received] = []
        self.accepted = 0
        self.open: set[Connection] = set()
        self.health_status = 200
        self.loads = b""  # its load report; none by default
        self.model = MODEL
        self.labels: dict[str, str] = {}
        self.dp_size = 1  # its data-parallel ranks
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def url(self) -> str:
        """What to register it under."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self.port}"

    async def start(self, port: int = 0) -> None:
        """Listen."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", port, ssl=self.tls
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.open):
            connection.writer.transport.abort()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = Connection(reader, writer)
        self.accepted += 1
        self.open.add(connection)
        try:
            while not connection.is_closed:
                request = await _read_request(reader)
                if request is None:
                    break
                if request.method == "GET":
                    self.probed.append(request)
                    await self._probe(connection, request)
                else:
                    self.received.append(request)
                    await self.script(connection, request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(connection)
            writer.close()

    async def _probe(self, connection: Connection, request: Received) -> None:
        path = request.path.partition("?")[0]
        if path == "/health":
            await connection.answer(b"", self.health_status)
        elif path == "/v1/models":
            await connection.answer(
                b'{"object":"list","data":[{"id":"%b","object":"model",'
                b'"owned_by":"sglang"}]}' % self.model.encode()
            )
        elif path == "/loads" and self.loads:
            await connection.answer(self.loads)
        elif path in ("/server_info", "/model_info"):
            told = b'{"served_model_name":"%b","dp_size":%d}'
            await connection.answer(told % (self.model.encode(), self.dp_size))
        else:
            await connection.answer(b'{"detail":"Not Found"}', 404)


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    method, path, _ = head.split(b" ", 2)
    body = b""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            body = await reader.readexactly(int(line[15:]))
        elif line == b"transfer-encoding: chunked":
            while size := int((await reader.readuntil(b"\r\n"))[:-2], 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readexactly(2)
    return Received(method.decode(), path.decode(), head, body)
