"""Keeps streamed chat completions running on a few HTTP/2 connections.

Arguments and output are those of streams.py in its timed mode, with --streams on each
of --conns connections.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from typing import cast

import uvloop

from loadtest.stats import percentile
from loadtest.tools.h2frames import DATA, HEADERS, ClientSide, Frame

PATH = "/v1/chat/completions"
BODY = (
    b'{"model":"sim","stream":true,"max_tokens":100,"messages":'
    b'[{"role":"user","content":"' + b"a" * 340 + b'"}]}'
)
# Each event of the simulated worker says when it was written and its place.
_EVENT = re.compile(rb'"t":(\d+),"seq":(\d+)')
DONE = b"data: [DONE]"


class Tally:
    """What was seen on all streams of the measured time."""

    __slots__ = ("added_us", "streams", "errors")

    def __init__(self, errors: int = 0) -> None:
        self.added_us: list[int] = []
        self.streams = 0
        self.errors = errors

    def figures(self) -> dict[str, float]:
        """The line that ends a run, less its time."""
        added = sorted(self.added_us)
        return {
            "events": len(added),
            "streams": self.streams,
            "errors": self.errors,
            "added_p50_us": percentile(added, 0.5),
            "added_p99_us": percentile(added, 0.99),
        }


class Streams:
    """One connection: counts the events of its streams, checks their order and end."""

    __slots__ = ("tally", "_expected", "_tails")

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self._expected: dict[int, int] = {}
        self._tails: dict[int, bytes] = {}

    def begin(self, stream: int) -> None:
        """A request was sent."""
        self._expected[stream] = 0
        self._tails[stream] = b""

    def see_data(self, stream: int, data: bytes, now_ns: int) -> None:
        """Bytes of one stream; an event may be cut anywhere."""
        text, mark, tail = (self._tails[stream] + data).rpartition(b"\n\n")
        self._tails[stream] = DONE if text.endswith(DONE) else tail
        added = self.tally.added_us
        for found in _EVENT.finditer(text) if mark else ():
            added.append((now_ns - int(found[1])) // 1000)
            if int(found[2]) != self._expected[stream]:
                self.tally.errors += 1
            self._expected[stream] = int(found[2]) + 1

    def end(self, stream: int) -> None:
        """The stream is over; one that did not say so itself has broken."""
        self.tally.streams += 1
        del self._expected[stream]
        if self._tails.pop(stream) != DONE:
            self.tally.errors += 1


class Client(asyncio.Protocol):
    """One connection on which a new stream follows each that ends."""

    def __init__(self, port: int, streams: int, tally: Tally) -> None:
        self._port = port
        self._count = streams
        self._side = ClientSide()
        self.streams = Streams(tally)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        asked = [self._ask() for _ in range(self._count)]
        self._transport.write(self._side.opening() + b"".join(asked))

    def connection_lost(self, exc: Exception | None) -> None:
        self.streams.tally.errors += self._count

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        asked = [self._take(found, now_ns) for found in self._side.feed(data)]
        replies, self._side.replies = self._side.replies, []
        out = b"".join(replies + asked)
        if out:
            self._transport.write(out)

    def _ask(self) -> bytes:
        stream, request = self._side.post(self._port, PATH, BODY)
        self.streams.begin(stream)
        return request

    def _take(self, found: Frame, now_ns: int) -> bytes:
        """Take note of one frame; what is to be sent for it."""
        if found.kind == DATA:
            self.streams.see_data(found.stream, found.payload, now_ns)
        elif found.kind == HEADERS and self._side.status(found) not in ("200", ""):
            self.streams.tally.errors += 1
        if not found.ends_stream:
            return b""
        self.streams.end(found.stream)
        return self._ask()


async def run(settings: argparse.Namespace) -> None:
    """Open all connections and count the events of the set time."""
    loop = asyncio.get_running_loop()
    tally = Tally()
    clients = []
    for _ in range(settings.conns):
        _, client = await loop.create_connection(
            lambda: Client(settings.port, settings.streams, tally),
            "127.0.0.1",
            settings.port,
        )
        clients.append(client)
    await asyncio.sleep(settings.warmup)
    tally = Tally(errors=tally.errors)
    for client in clients:
        client.streams.tally = tally
    print(json.dumps({"phase": "begin"}), flush=True)
    start = time.monotonic()
    await asyncio.sleep(settings.seconds)
    said = {"phase": "end", "seconds": time.monotonic() - start}
    print(json.dumps(said | tally.figures()), flush=True)
    sys.stdin.read()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--conns", type=int, default=4)
    parser.add_argument("--streams", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--warmup", type=float, default=1)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
