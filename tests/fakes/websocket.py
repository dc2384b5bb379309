"""Both ends of a WebSocket, frame by frame, with every fault a test may want."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.fakes.client import Answer, Client
from tests.fakes.worker import Connection, FakeWorker, Received, Script

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="  # of RFC 6455 section 1.3
ACCEPT = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@dataclass(frozen=True)
class Frame:
    """One frame as it was read."""

    opcode: int
    payload: bytes
    is_final: bool
    reserved: int
    is_masked: bool
    raw: bytes

    @property
    def code(self) -> int:
        """A Close's code; 1005 when it has none."""
        return int.from_bytes(self.payload[:2], "big") if self.payload else 1005

    @property
    def reason(self) -> str:
        """A Close's reason."""
        return self.payload[2:].decode()


def frame(
    opcode: int,
    payload: bytes = b"",
    *,
    final: bool = True,
    reserved: int = 0,
    mask: bytes | None = None,
) -> bytes:
    """The bytes of a frame, legal or not; ``reserved``: RSV1 is 4."""
    size = len(payload)
    masked = 0 if mask is None else 0x80
    if size < 126:
        length = struct.pack("!B", masked | size)
    elif size < 65536:
        length = struct.pack("!BH", masked | 126, size)
    else:
        length = struct.pack("!BQ", masked | 127, size)
    first = bytes([final << 7 | reserved << 4 | opcode])
    if mask is None:
        return first + length + payload
    return first + length + mask + masking(payload, mask)


def masking(payload: bytes, mask: bytes) -> bytes:
    """A payload under a mask, or out of it."""
    size = len(payload)
    key = (mask * (size // 4 + 1))[:size]
    number = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return number.to_bytes(size, "big")


def close_payload(code: int, reason: str = "") -> bytes:
    """What a Close carries."""
    return struct.pack("!H", code) + reason.encode()


def accept_of(key: bytes) -> bytes:
    """Sec-WebSocket-Accept for a key."""
    return base64.b64encode(hashlib.sha1(key + _GUID).digest())


class Peer:
    """One end of an open WebSocket."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        send: Callable[[bytes], Awaitable[None]],
        is_client: bool,
    ) -> None:
        self.reader = reader
        self.send_raw = send
        self._is_client = is_client

    def _mask(self) -> bytes | None:
        return os.urandom(4) if self._is_client else None

    async def send(
        self,
        opcode: int,
        payload: bytes = b"",
        *,
        final: bool = True,
        reserved: int = 0,
    ) -> None:
        """Send one frame."""
        await self.send_raw(
            frame(opcode, payload, final=final, reserved=reserved, mask=self._mask())
        )

    async def text(self, text: str) -> None:
        """Send a text message."""
        await self.send(TEXT, text.encode())

    async def close(self, code: int | None = None, reason: str = "") -> None:
        """Send a Close."""
        await self.send(CLOSE, b"" if code is None else close_payload(code, reason))

    async def read(self) -> Frame:
        """Read one frame."""
        read = self.reader.readexactly
        raw = head = await read(2)
        length = head[1] & 127
        if length > 125:
            more = await read(2 if length == 126 else 8)
            raw += more
            length = int.from_bytes(more, "big")
        is_masked = bool(head[1] & 128)
        mask = await read(4) if is_masked else b""
        payload = await read(length)
        raw += mask + payload
        if is_masked:
            payload = masking(payload, mask)
        return Frame(
            head[0] & 15,
            payload,
            bool(head[0] & 128),
            head[0] >> 4 & 7,
            is_masked,
            raw,
        )

    async def at_end(self) -> bytes:
        """What still comes before the other side's end; empty when all is said."""
        try:
            return await self.reader.read()
        except ConnectionError:
            return b""


def upgrade(
    query: str = "?model=m", headers: str = "", path: str = "/v1/realtime"
) -> bytes:
    """The bytes of a client's opening handshake."""
    return (
        f"GET {path}{query} HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\n"
        f"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {KEY.decode()}\r\n{headers}\r\n"
    ).encode()


class SocketClient(Peer):
    """A client behind its upgrade, or behind a refusal of it."""

    def __init__(self, client: Client, answer: Answer) -> None:
        super().__init__(client.reader, client.send, True)
        self.client = client
        self.answer = answer

    @classmethod
    async def open(
        cls,
        port: int,
        query: str = "?model=m",
        headers: str = "",
        early: bytes = b"",
        receive_buffer: int = 0,
    ) -> SocketClient:
        """Connect, and shake hands; ``early`` goes with the request."""
        client = await Client.connect(port, receive_buffer)
        await client.send(upgrade(query, headers) + early)
        try:
            answer = await client.head()
            assert answer.status == 101, answer.status
        except BaseException:
            client.close()
            raise
        return cls(client, answer)

    async def leave(self) -> None:
        """Close as a client should, and see the worker's answer to it."""
        await self.close(1000)
        while (await self.read()).opcode != CLOSE:
            pass
        assert await self.at_end() == b""
        self.client.close()


class RealtimeWorker(FakeWorker):
    """A worker whose script also gets the handshakes of realtime sessions."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.labels = {"realtime": "true"}

    async def _probe(self, connection: Connection, request: Received) -> None:
        if request.get("upgrade") == "websocket":
            self.probed.remove(request)
            self.received.append(request)
            await self.script(connection, request)
        else:
            await super()._probe(connection, request)


async def accept(
    connection: Connection, request: Received, headers: str = "", early: bytes = b""
) -> Peer:
    """Agree to a handshake; the worker's end of the session."""
    key = request.get("sec-websocket-key")
    assert key is not None
    await connection.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Accept: %b\r\n%b\r\n"
        % (accept_of(key.encode()), headers.encode())
        + early
    )
    return Peer(connection.reader, connection.send, False)


async def echo(connection: Connection, request: Received) -> None:
    """The script of a worker that sends every message back, as it came."""
    peer = await accept(connection, request)
    try:
        while True:
            got = await peer.read()
            opcode = PONG if got.opcode == PING else got.opcode
            if got.opcode == PONG:
                continue
            await peer.send(opcode, got.payload, final=got.is_final)
            if got.opcode == CLOSE:
                break
    except asyncio.IncompleteReadError:
        pass
    connection.close()
