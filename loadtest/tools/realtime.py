"""Realtime sessions on many connections: what the relay adds, and what it loses.

    python -m loadtest.tools.realtime PORT --serve
    python -m loadtest.tools.realtime PORT --conns N [--a-second R | --busy]
                                      [--bytes B] [--seconds S] [--warmup S]

The first is the worker: it answers a gateway's probes, and each message with one of
the same size. The second opens its sessions, sends on each R messages a second, by
turns and not all at once, and times the answers; with R = 0 it only holds them.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import struct
import sys
import time
from collections.abc import Callable
from typing import cast

import uvloop

from loadtest.stats import percentile
from loadtest.tools.upstream import JSON_HEAD, fact

MODEL = "sim"
KEY = b"dGhlIHNhbXBsZSBub25jZQ=="
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_HANDSHAKE = (
    f"GET /v1/realtime?model={MODEL} HTTP/1.1\r\nHost: gateway\r\n"
    "Authorization: Bearer none\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY.decode()}\r\n\r\n"
).encode()
_AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Accept: %b\r\n\r\n"
)
# A message begins with the time of its sending and its number, in its session.
_STAMP = struct.Struct("!QQ")
_MASK = bytes(4)  # legal, and leaves a payload as it is
_CONNECTS_AT_ONCE = 50
_OPEN_SECS = 20
# After the last was sent, how long its answer may take.
_LAST_SECS = 2.0

Take = Callable[[int, int], None]


def head_of(size: int, mask: bytes) -> bytes:
    """The head of a binary frame of this payload."""
    masked = 0x80 if mask else 0
    if size < 126:
        return bytes((0x82, masked | size)) + mask
    if size < 65536:
        return struct.pack("!BBH", 0x82, masked | 126, size) + mask
    return struct.pack("!BBQ", 0x82, masked | 127, size) + mask


class Frames:
    """Takes a stream of whole binary messages apart, and reads their stamps.

    Raises ValueError for any other frame: a Close most of all.
    """

    __slots__ = ("_take", "_held")

    def __init__(self, take: Take) -> None:
        self._take = take
        self._held = b""

    def feed(self, data: bytes) -> None:
        """Pass the stamp of each message that is complete now."""
        if self._held:
            data = self._held + data
        at, size = 0, len(data)
        while size - at > 1:
            end, start = self._bounds(data, at)
            if end > size or not end:
                break
            stamp = data[start : start + _STAMP.size]
            if data[at + 1] & 0x80:
                mask = data[start - 4 : start] * 4
                number = int.from_bytes(stamp, "big") ^ int.from_bytes(mask, "big")
                stamp = number.to_bytes(_STAMP.size, "big")
            self._take(*_STAMP.unpack(stamp))
            at = end
        self._held = data[at:]

    def _bounds(self, data: bytes, at: int) -> tuple[int, int]:
        """Where the frame ends, and where its payload begins; 0: too little came."""
        if data[at] != 0x82:
            raise ValueError(f"a frame that begins with {data[at]:#x}")
        length, start = data[at + 1] & 0x7F, at + 2
        width = {126: 2, 127: 8}.get(length, 0)
        if width:
            if len(data) < start + width:
                return 0, 0
            length = int.from_bytes(data[start : start + width], "big")
            start += width
        start += 4 if data[at + 1] & 0x80 else 0
        return start + length, start


class Worker(asyncio.Protocol):
    """One connection to the worker: probes, or a session that answers messages."""

    def __init__(self) -> None:
        self._frames: Frames | None = None
        self._head = b""
        self._replies: list[bytes] = []
        self._rest = b""
        self._bytes = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._frames is None:
            self._head += data
            head, mark, rest = self._head.partition(b"\r\n\r\n")
            if mark:
                self._head = b""
                self._answer(head)
                if rest and self._frames is not None:
                    self.data_received(rest)
            return
        if not self._bytes:
            self._measure(data)
        try:
            self._frames.feed(data)
        except ValueError:
            self._transport.abort()
            return
        if self._replies:
            replies, self._replies = self._replies, []
            self._transport.write(b"".join(replies))

    def _answer(self, head: bytes) -> None:
        lines = head.split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines[1:])
        if b"sec-websocket-key" not in fields:
            body = fact(lines[0].split()[1])
            self._transport.write(JSON_HEAD % len(body) + body)
            return
        name = b"sec-websocket-key: "
        key = next(line for line in lines if line.lower().startswith(name))[len(name) :]
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        self._transport.write(_AGREED % accept)
        self._frames = Frames(self._reply)

    def _measure(self, data: bytes) -> None:
        """All messages of a session have the size of its first."""
        length = data[1] & 0x7F
        if length == 126:
            length = int.from_bytes(data[2:4], "big")
        self._bytes = length
        self._rest = b"x" * (length - _STAMP.size)

    def _reply(self, sent_ns: int, number: int) -> None:
        stamp = _STAMP.pack(sent_ns, number)
        self._replies.append(head_of(self._bytes, b"") + stamp + self._rest)


class Tally:
    """What was seen of all sessions in the measured time."""

    __slots__ = ("round_us", "lost", "reordered", "errors", "open")

    def __init__(self) -> None:
        self.round_us: list[int] = []
        self.lost = self.reordered = self.errors = self.open = 0

    def figures(self) -> dict[str, float]:
        """The line that ends a run, less its time. A round is two messages."""
        rounds = sorted(self.round_us)
        return {
            "messages": 2 * len(rounds),
            "open": self.open,
            "lost": self.lost,
            "reordered": self.reordered,
            "errors": self.errors,
            "round_p50_us": percentile(rounds, 0.5) if rounds else 0,
            "round_p99_us": percentile(rounds, 0.99) if rounds else 0,
        }


class Client(asyncio.Protocol):
    """One session: numbers what it sends, and times what comes back."""

    def __init__(self, tally: Tally, size: int) -> None:
        self.sent = self.got = 0
        self.is_busy = False  # each answer is followed by a message at once
        self.tally = tally
        self.is_open = asyncio.get_running_loop().create_future()
        self._head = head_of(size, _MASK)
        self._rest = b"x" * (size - _STAMP.size)
        self._frames = Frames(self._take)
        self._answer = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(_HANDSHAKE)

    def connection_lost(self, exc: Exception | None) -> None:
        self.tally.errors += 1
        if not self.is_open.done():
            self.is_open.set_result(False)

    def data_received(self, data: bytes) -> None:
        if self.is_open.done():
            try:
                self._frames.feed(data)
            except ValueError:
                self._transport.abort()
            return
        self._answer += data
        head, mark, rest = self._answer.partition(b"\r\n\r\n")
        if mark:
            self.is_open.set_result(head.startswith(b"HTTP/1.1 101"))
            if rest:
                self._frames.feed(rest)

    def send(self) -> None:
        """Send the next message."""
        stamp = _STAMP.pack(time.monotonic_ns(), self.sent)
        self._transport.write(self._head + stamp + self._rest)
        self.sent += 1

    def _take(self, sent_ns: int, number: int) -> None:
        if number > self.got:
            self.tally.lost += number - self.got
        elif number < self.got:
            self.tally.reordered += 1
        self.got = number + 1
        self.tally.round_us.append((time.monotonic_ns() - sent_ns) // 1000)
        if self.is_busy:
            self.send()


async def open_all(settings: argparse.Namespace, tally: Tally) -> list[Client]:
    """All sessions, some at a time."""
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    while len(clients) < settings.conns:
        batch = []
        for _ in range(min(_CONNECTS_AT_ONCE, settings.conns - len(clients))):
            _, client = await loop.create_connection(
                lambda: Client(tally, settings.bytes), "127.0.0.1", settings.port
            )
            batch.append(client)
        async with asyncio.timeout(_OPEN_SECS):
            tally.open += sum(await asyncio.gather(*[one.is_open for one in batch]))
        clients += batch
    return clients


async def send_by_turns(clients: list[Client], a_second: float, until: float) -> None:
    """Send on each session ``a_second`` times, spread over the whole second."""
    total = len(clients) * a_second
    start, number = time.monotonic(), 0
    while (now := time.monotonic()) < until:
        due = int((now - start) * total)
        while number < due:
            clients[number % len(clients)].send()
            number += 1
        await asyncio.sleep(0.001)


async def talk(clients: list[Client], settings: argparse.Namespace) -> None:
    """Talk for ``--seconds``: by turns, or as fast as answers come."""
    until = time.monotonic() + settings.seconds
    if settings.a_second:
        await send_by_turns(clients, settings.a_second, until)
    elif settings.busy:
        await asyncio.sleep(settings.seconds)
        for client in clients:
            client.is_busy = False
    last = time.monotonic() + _LAST_SECS
    while any(c.got < c.sent for c in clients) and time.monotonic() < last:
        await asyncio.sleep(0.001)


async def run(settings: argparse.Namespace) -> None:
    """Open the sessions, talk for the set time, and say what was seen."""
    clients = await open_all(settings, opening := Tally())
    if settings.a_second:
        until = time.monotonic() + settings.warmup
        await send_by_turns(clients, settings.a_second, until)
    elif settings.busy:
        for client in clients:
            client.is_busy = True
            client.send()
        await asyncio.sleep(settings.warmup)
    tally = Tally()
    tally.open, tally.errors = opening.open, opening.errors
    for client in clients:
        client.tally = tally
    print(json.dumps({"phase": "begin"}), flush=True)
    start = time.monotonic()
    if settings.a_second or settings.busy:
        await talk(clients, settings)
        tally.lost += sum(client.sent - client.got for client in clients)
    said = {"phase": "end", "seconds": time.monotonic() - start}
    print(json.dumps(said | tally.figures()), flush=True)
    sys.stdin.read()


async def serve(port: int) -> None:
    """Be the worker until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Worker, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--conns", type=int, default=100)
    parser.add_argument("--a-second", type=float, default=0)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--bytes", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warmup", type=float, default=1)
    settings = parser.parse_args()
    uvloop.run(serve(settings.port) if settings.serve else run(settings))


if __name__ == "__main__":
    main()
