"""A closed loop of buffered chat requests, for machines without wrk.

Prints one line of JSON at the end, as chat.lua does.
"""

import argparse
import asyncio
import json
import time
from typing import cast

import httptools
import uvloop

from loadtest.stats import percentile

BODY = (
    '{"model":"sim","messages":['
    '{"role":"system","content":"You are a helpful assistant."},'
    '{"role":"user","content":"' + "What is the capital of France? " * 10 + '"}],'
    '"max_tokens":100,"temperature":0.7}'
).encode()


def chat_request(port: int) -> bytes:
    """The request that is sent over and over, the same as chat.lua's."""
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (port, len(BODY), BODY)
    )


class Client(asyncio.Protocol):
    """One connection, with one request at a time."""

    waits_us: list[int] = []
    errors = 0

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._asked_ns = 0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.ask()

    def connection_lost(self, exc: Exception | None) -> None:
        Client.errors += 1

    def ask(self) -> None:
        """Send the next request."""
        if not self._transport.is_closing():
            self._asked_ns = time.monotonic_ns()
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() != 200:
            Client.errors += 1
        self.waits_us.append((time.monotonic_ns() - self._asked_ns) // 1000)
        self.ask()


async def run(settings: argparse.Namespace) -> None:
    """Keep every connection busy for the set time."""
    loop = asyncio.get_running_loop()
    request = chat_request(settings.port)
    start = time.monotonic()
    for _ in range(settings.conns):
        await loop.create_connection(
            lambda: Client(request), "127.0.0.1", settings.port
        )
    await asyncio.sleep(settings.seconds)
    waits = sorted(Client.waits_us)
    said = {
        "phase": "end",
        "requests": len(waits),
        "seconds": time.monotonic() - start,
        "errors": Client.errors,
        "latency_p50_us": percentile(waits, 0.5),
        "latency_p99_us": percentile(waits, 0.99),
    }
    print(json.dumps(said), flush=True)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--conns", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=3)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
