"""Conversations sent through a gateway to a fleet with prefix caches, in one process.

Every turn of the trace is sent at its time, whatever became of those before. A worker
prefills what its cache lacks, one prompt after the other, and then takes a while to
answer. Prints one line of JSON at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import cast

import httptools
import uvloop

from loadtest.conversations import (
    BLOCK_TOKENS,
    CACHE_BLOCKS,
    DECODE_SECS,
    PREFILL_BLOCKS_PER_SEC,
    WORKERS,
    PrefixCache,
    Turn,
    blocks_of,
    busiest_share,
    trace,
)
from loadtest.stats import percentile
from loadtest.tools.crowd import until_ready
from loadtest.tools.incoming import Incoming
from loadtest.tools.upstream import REPLY, fact, pad

JSON_HEAD = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n"
ROLES = ("user", "assistant")
FINISH_SECS = 5


class Engine:
    """A worker; its clock runs ``speed`` times as fast as ours."""

    def __init__(self, speed: float) -> None:
        self.requests = 0
        self.asked = 0  # blocks
        self.cached = 0
        self._speed = speed
        self._cache = PrefixCache()
        self._prefilled_at = 0.0
        self._waiting = 0
        self._running = 0

    def serve(self, prompt: str, answer: Callable[[], None]) -> None:
        """Take a prompt; answer when it is prefilled and decoded."""
        loop = asyncio.get_running_loop()
        blocks = blocks_of(prompt)
        hits = self._cache.take(blocks)
        self.requests += 1
        self.asked += len(blocks)
        self.cached += hits
        self._waiting += 1
        secs = (len(blocks) - hits) / PREFILL_BLOCKS_PER_SEC / self._speed
        self._prefilled_at = max(loop.time(), self._prefilled_at) + secs
        loop.call_at(self._prefilled_at, self._decode, answer)

    def _decode(self, answer: Callable[[], None]) -> None:
        self._waiting -= 1
        self._running += 1
        loop = asyncio.get_running_loop()
        loop.call_later(DECODE_SECS / self._speed, self._finish, answer)

    def _finish(self, answer: Callable[[], None]) -> None:
        self._running -= 1
        answer()

    def report(self) -> bytes:
        """Its load, as an engine tells it; one that is prefilling does not wait."""
        rate = PREFILL_BLOCKS_PER_SEC * BLOCK_TOKENS
        secs = self._prefilled_at - asyncio.get_running_loop().time()
        entry = {
            "dp_rank": 0,
            "num_running_reqs": self._running + min(self._waiting, 1),
            "num_waiting_reqs": max(self._waiting - 1, 0),
            "num_waiting_uncached_tokens": int(max(secs, 0) * self._speed * rate),
            "token_usage": 0.5 * len(self._cache) / CACHE_BLOCKS,
            "gen_throughput": rate,
            "cache_hit_rate": 0.0,
        }
        return json.dumps({"loads": [entry]}).encode()


class Worker(Incoming):
    """One connection of the gateway's to an engine."""

    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def on_message_complete(self) -> None:
        if self._is_get:
            is_load = b"loads" in self._path
            self._answer(self._engine.report() if is_load else fact(self._path))
            return
        asked = json.loads(b"".join(self._body))
        prompt = " ".join(one["content"] for one in asked["messages"])
        self._engine.serve(prompt, partial(self._answer, pad(REPLY, 400)))

    def _answer(self, body: bytes) -> None:
        if not self._transport.is_closing():
            head = b"HTTP/1.1 200 OK\r\n" + JSON_HEAD % len(body)
            self._transport.write(head + body)


class Clients:
    """All clients, on as many connections as are needed at once."""

    def __init__(self, port: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.waits_ms: list[float] = []
        self.unanswered = 0
        self.idle: list[Connection] = []
        self._port = port

    async def ask(self, turn: Turn) -> None:
        """Send one turn."""
        self.unanswered += 1
        if self.idle:
            connection = self.idle.pop()
        else:
            loop = asyncio.get_running_loop()
            made = await loop.create_connection(
                lambda: Connection(self), "127.0.0.1", self._port
            )
            connection = made[1]
        connection.ask(body_of(turn))


class Connection(asyncio.Protocol):
    """One connection to the gateway."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._asked_at = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self in self._clients.idle:
            self._clients.idle.remove(self)

    def ask(self, body: bytes) -> None:
        """Send a request; the connection is idle again when it is answered."""
        self._asked_at = asyncio.get_running_loop().time()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        self._transport.write(head + JSON_HEAD % len(body) + body)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        clients = self._clients
        clients.unanswered -= 1
        clients.statuses[self._parser.get_status_code()] += 1
        secs = asyncio.get_running_loop().time() - self._asked_at
        clients.waits_ms.append(1000 * secs)
        clients.idle.append(self)


def body_of(turn: Turn) -> bytes:
    """A turn as a chat request."""
    system, *others = turn.messages
    said = [{"role": "system", "content": system}]
    for number, text in enumerate(others):
        said.append({"role": ROLES[number % 2], "content": text})
    return json.dumps({"model": "sim", "messages": said}).encode()


async def run(settings: argparse.Namespace) -> None:
    """Serve; send the trace, once there is a gateway; say what it came to."""
    loop = asyncio.get_running_loop()
    engines = [Engine(settings.speed) for _ in range(WORKERS)]
    servers = [
        await loop.create_server(partial(Worker, engine), "127.0.0.1", port)
        for port, engine in enumerate(engines, settings.first_worker_port)
    ]
    turns = trace()
    print(json.dumps({"phase": "ready"}), flush=True)
    await until_ready(settings.port)
    await until_all_are_registered(settings.port)
    clients = Clients(settings.port)
    begin = loop.time()
    for turn in turns:
        await asyncio.sleep(begin + turn.at / settings.speed - loop.time())
        await clients.ask(turn)
    end = loop.time() + FINISH_SECS
    while clients.unanswered and loop.time() < end:
        await asyncio.sleep(0.05)
    print(json.dumps({"phase": "end"} | figures(engines, clients)), flush=True)
    for server in servers:
        server.close()


async def until_all_are_registered(port: int) -> None:
    """Wait until the gateway knows the whole fleet."""
    count = 0
    while count < WORKERS:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /workers HTTP/1.0\r\n\r\n")
        answer = await reader.read()
        writer.close()
        count = answer.count(b'"url"')


def figures(engines: list[Engine], clients: Clients) -> dict[str, float]:
    """What the run came to."""
    waits = sorted(clients.waits_ms)
    asked = sum(engine.asked for engine in engines)
    cached = sum(engine.cached for engine in engines)
    work = [engine.asked - engine.cached for engine in engines]
    good = clients.statuses.pop(200, 0)
    return {
        "answered": good,
        "failed": clients.statuses.total() + clients.unanswered,
        "cached_percent": 100 * cached / asked,
        "busiest_requests": busiest_share([engine.requests for engine in engines]),
        "busiest_work": busiest_share(work),
        "wait_mean_ms": sum(waits) / max(len(waits), 1),
        "wait_p99_ms": percentile(waits, 0.99),
    }


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("first_worker_port", type=int)
    parser.add_argument("--speed", type=float, default=6)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
