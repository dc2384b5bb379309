"""A crowd in front of a capped gateway, and the worker behind it, in one process.

Each client asks again at once when it was served, and after a while when it was turned
away. The worker counts how many requests it has at a time, and in which order they
came. Prints one line of JSON at the end.
"""

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from typing import cast

import httptools
import uvloop

from loadtest.stats import percentile
from loadtest.tools.incoming import Incoming
from loadtest.tools.upstream import JSON_HEAD, REPLY, fact, pad

BODY = b'{"model":"sim","messages":[{"role":"user","content":"hi"}]}'
# How long the worker takes for a request, and a client before it tries again.
WORK_SECS = (0.1, 0.3)
BACKOFF_SECS = (0.5, 1.5)
FINISH_SECS = 10


class Worker(Incoming):
    """One connection of the gateway's."""

    running = 0
    most = 0
    order: list[int] = []

    def __init__(self) -> None:
        super().__init__()
        self._number = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-request-id":
            self._number = int(value)

    def on_message_complete(self) -> None:
        if self._is_get:
            self._answer(fact(self._path))
            return
        Worker.running += 1
        Worker.most = max(Worker.most, Worker.running)
        Worker.order.append(self._number)
        secs = random.uniform(*WORK_SECS)
        asyncio.get_running_loop().call_later(secs, self._finish)

    def _finish(self) -> None:
        Worker.running -= 1
        self._answer(pad(REPLY, 400))

    def _answer(self, body: bytes) -> None:
        self._transport.write(JSON_HEAD % len(body) + body)


class Client(asyncio.Protocol):
    """One client, with one request at a time."""

    asked = 0
    busy = 0
    is_over = False
    statuses: Counter[int] = Counter()
    lost = 0
    waits_ms: list[float] = []

    def __init__(self) -> None:
        self._asked_at = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not Client.is_over:
            Client.lost += 1

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        Client.busy -= 1
        Client.statuses[status] += 1
        if status == 200:
            self.waits_ms.append((time.monotonic() - self._asked_at) * 1000)
            self._ask()
        else:
            secs = random.uniform(*BACKOFF_SECS)
            asyncio.get_running_loop().call_later(secs, self._ask)

    def _ask(self) -> None:
        if Client.is_over or self._transport.is_closing():
            return
        Client.busy += 1
        Client.asked += 1
        self._asked_at = time.monotonic()
        self._transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nX-Request-Id: %d\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (Client.asked, len(BODY), BODY)
        )


def overtaken(order: list[int]) -> int:
    """By how many places the worst request came later than it was asked for."""
    places = {number: place for place, number in enumerate(sorted(order))}
    return max((place - places[each] for place, each in enumerate(order)), default=0)


async def until_ready(port: int) -> None:
    """Wait for the gateway, which waits for our worker."""
    while True:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        writer.write(b"GET /readiness HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        if answer.startswith(b"HTTP/1.0 200"):
            return
        await asyncio.sleep(0.1)


async def run(settings: argparse.Namespace) -> None:
    """Serve; ask for the set time, once there is a gateway; finish."""
    loop = asyncio.get_running_loop()
    await loop.create_server(Worker, "127.0.0.1", settings.worker_port, backlog=4096)
    print(json.dumps({"phase": "ready"}), flush=True)
    await until_ready(settings.port)
    for _ in range(settings.clients):
        await loop.create_connection(Client, "127.0.0.1", settings.port)
    await asyncio.sleep(settings.seconds)
    Client.is_over = True
    deadline = time.monotonic() + FINISH_SECS
    while Client.busy and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    waits = sorted(Client.waits_ms)
    said = {
        "phase": "end",
        "asked": Client.asked,
        **{f"status_{key}": count for key, count in Client.statuses.items()},
        "unanswered": Client.busy,
        "lost": Client.lost,
        "worker_most": Worker.most,
        "overtaken": overtaken(Worker.order),
        "wait_p50_ms": percentile(waits, 0.5),
        "wait_p99_ms": percentile(waits, 0.99),
    }
    print(json.dumps(said), flush=True)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("worker_port", type=int)
    parser.add_argument("--clients", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=30)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
