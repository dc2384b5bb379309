"""A client that sends exactly the bytes a test gives it, and reads what comes back."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import struct
from typing import Self

CHAT = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
STREAM = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'

# An ordinary body of every other route.
_MESSAGES = b'"messages":[{"role":"user","content":"hi"}]'
BODIES = {
    "/v1/completions": b'{"model":"m","prompt":"hi"}',
    "/v1/messages": b'{"model":"m","max_tokens":9,%b}' % _MESSAGES,
    "/v1/messages/count_tokens": b'{"model":"m",%b}' % _MESSAGES,
    "/v1/responses": b'{"model":"m","input":"hi"}',
    "/v1/embeddings": b'{"model":"m","input":"hi"}',
    "/v1/classify": b'{"model":"m","input":"hi"}',
    "/v1/rerank": b'{"model":"m","query":"hi","documents":["a"]}',
    "/rerank": b'{"model":"m","query":"hi","documents":["a"]}',
    "/generate": b'{"model":"m","text":"hi"}',
    "/v1/decisions": b'{"model":"m","input":"hi","questions":[]}',
}


def chat(model: str = "m", **fields: object) -> bytes:
    """A chat's body with further fields."""
    messages = [{"role": "user", "content": "hi"}]
    return json.dumps({"model": model, "messages": messages, **fields}).encode()


def streaming(path: str) -> bytes:
    """A body of a route that asks for a stream."""
    return BODIES.get(path, CHAT)[:-1] + b',"stream":true}'


def post(
    body: bytes | None = None, path: str = "/v1/chat/completions", headers: str = ""
) -> bytes:
    """The bytes of an ordinary POST."""
    if body is None:
        body = BODIES.get(path, CHAT)
    return (
        f"POST {path} HTTP/1.1\r\nHost: gateway\r\nContent-Type: application/json\r\n"
        f"{headers}Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body


class Answer:
    """A response read off the wire, its body de-chunked."""

    def __init__(self, status: int, headers: list[tuple[str, str]]) -> None:
        self.status = status
        self.headers = headers
        self.body = b""
        self.is_whole = False

    def get(self, name: str) -> str | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key == name]


class Client:
    """One raw connection to the gateway."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(
        cls, port: int, receive_buffer: int = 0, tls: ssl.SSLContext | None = None
    ) -> Self:
        """Open a connection; a small ``receive_buffer`` makes a slow reader."""
        sock = socket.socket()
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        limit = receive_buffer or 1 << 20
        reader, writer = await asyncio.open_connection(
            sock=sock,
            limit=limit,
            ssl=tls,
            server_hostname=None if tls is None else "127.0.0.1",
        )
        return cls(reader, writer)

    async def send(self, data: bytes) -> None:
        """Write, and wait until the socket took it."""
        if self.writer.is_closing():
            raise ConnectionResetError  # uvloop has an error of its own for this
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> Answer:
        """Read a response head."""
        raw = await self.reader.readuntil(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")
        headers = []
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers.append((name.lower(), value.strip()))
        return Answer(int(lines[0].split(" ")[1]), headers)

    async def chunk(self) -> bytes:
        """Read one chunk of a chunked body; empty at its end."""
        size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
        data = await self.reader.readexactly(size + 2)
        return data[:-2]

    async def answer(self, has_body: bool = True) -> Answer:
        """Read a whole response, as far as it goes."""
        answer = await self.head()
        if not has_body or answer.status in (204, 304):
            answer.is_whole = True
            return answer
        try:
            if answer.get("transfer-encoding") == "chunked":
                while piece := await self.chunk():
                    answer.body += piece
                answer.is_whole = True
            elif (length := answer.get("content-length")) is not None:
                answer.body = await self.reader.readexactly(int(length))
                answer.is_whole = True
            else:
                answer.body = await self.reader.read()
                answer.is_whole = True
        except (asyncio.IncompleteReadError, ConnectionError):
            answer.is_whole = False
        return answer

    async def ask(self, data: bytes) -> Answer:
        """Send a request and read its response."""
        await self.send(data)
        return await self.answer()

    async def until_closed(self) -> bytes:
        """Everything up to the gateway's close."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""

    def finish(self) -> None:
        """Send a FIN, and go on reading."""
        self.writer.write_eof()

    def close(self) -> None:
        """Close in good order."""
        self.writer.close()

    def finish_socket(self) -> None:
        """Send a bare FIN, below TLS if there is any, and go on reading."""
        number = self.writer.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(number)) as sock:
            sock.shutdown(socket.SHUT_WR)

    def reset(self) -> None:
        """Leave with a reset."""
        sock: socket.socket | None = self.writer.get_extra_info("socket")
        if sock is not None:  # else the other side was first
            linger = struct.pack("ii", 1, 0)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.writer.transport.abort()
