"""The stream client in Python: same arguments and output as streams.c.

Its files say the same things; a change of one is a change of both.
"""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import cast

import httptools
import uvloop

from loadtest.stats import percentile


@dataclass(slots=True)
class Tally:
    """What was seen on all streams. Times are in microseconds."""

    events: int = 0
    streams: int = 0
    smooth: int = 0
    stalls: int = 0
    lost: int = 0
    reordered: int = 0
    errors: int = 0
    heads: int = 0
    max_gap_us: int = 0
    added_us: list[int] = field(default_factory=list)
    ttfb_us: list[int] = field(default_factory=list)

    def figures(self) -> dict[str, float]:
        """The line that ends a run, less its time."""
        added, ttfb = sorted(self.added_us), sorted(self.ttfb_us)
        names = "events streams smooth stalls lost reordered errors heads".split()
        counts: dict[str, float] = {name: getattr(self, name) for name in names}
        return counts | {
            "max_gap_ms": self.max_gap_us / 1000,
            "added_p50_us": percentile(added, 0.5),
            "added_p99_us": percentile(added, 0.99),
            "added_p999_us": percentile(added, 0.999),
            "ttfb_p50_us": percentile(ttfb, 0.5),
            "ttfb_p99_us": percentile(ttfb, 0.99),
        }


class Order:
    """Checks one stream's events: their numbers and the gaps between them."""

    __slots__ = ("expected", "is_spoilt", "_last_us", "_stall_us")

    def __init__(self, stall_us: int) -> None:
        self.expected = 0
        self.is_spoilt = False
        self._last_us = 0
        self._stall_us = stall_us

    def see(self, seq: int, sent_us: int, now_us: int, tally: Tally) -> None:
        """Take note of one event."""
        tally.events += 1
        tally.added_us.append(now_us - sent_us)
        gap = now_us - self._last_us if self._last_us else 0
        self._last_us = now_us
        tally.max_gap_us = max(tally.max_gap_us, gap)
        if gap > self._stall_us:
            tally.stalls += 1
            self.is_spoilt = True
        if seq < self.expected:
            tally.reordered += 1
            self.is_spoilt = True
            return
        if seq > self.expected:
            tally.lost += seq - self.expected
            self.is_spoilt = True
        self.expected = seq + 1


def chat_request(port: int, body_bytes: int) -> bytes:
    """A streamed chat completion whose body has about this size."""
    head = '{"model":"sim","stream":true,"max_tokens":100,"messages":'
    start = head + '[{"role":"user","content":"'
    body = (start + "a" * max(1, body_bytes - 4 - len(start)) + '"}]}').encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
        b"Content-Type: application/json\r\nAccept: text/event-stream\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (port, len(body), body)
    )


class Load:
    """The run: its settings, its tally, and when it is over."""

    __slots__ = ("settings", "tally", "request", "is_over", "_open", "_dials")

    def __init__(self, settings: argparse.Namespace) -> None:
        self.settings = settings
        self.tally = Tally()
        self.request = chat_request(settings.port, settings.body_bytes)
        self.is_over = asyncio.get_running_loop().create_future()
        self._open = settings.conns
        self._dials: set[asyncio.Task[None]] = set()

    async def dial(self) -> None:
        """Open a connection and start its stream."""
        await asyncio.get_running_loop().create_connection(
            lambda: Client(self), "127.0.0.1", self.settings.port
        )

    def dial_again(self) -> None:
        """Replace a connection that was closed between two streams."""
        task = asyncio.get_running_loop().create_task(self.dial())
        self._dials.add(task)
        task.add_done_callback(self._on_dialled)

    def _on_dialled(self, task: asyncio.Task[None]) -> None:
        self._dials.discard(task)
        if task.exception() is not None:
            self.tally.errors += 1

    def on_ended(self) -> None:
        """A connection has had its one stream, or its head, or has broken."""
        self._open -= 1
        if not self._open and self.settings.mode != "timed" and not self.is_over.done():
            self.is_over.set_result(None)


class Client(asyncio.Protocol):
    """One connection, with one stream at a time."""

    def __init__(self, load: Load) -> None:
        self._load = load
        self._is_ended = False
        self._transport: asyncio.Transport
        self._reset()

    def _reset(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._order = Order(self._load.settings.stall_ms * 1000)
        self._line = b""
        self._asked_us = 0
        self._has_bytes = self._has_done = self._has_head = False

    def ask(self) -> None:
        """Send the request for a new stream."""
        self._reset()
        self._asked_us = time.monotonic_ns() // 1000
        self._transport.write(self._load.request)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.ask()

    def data_received(self, data: bytes) -> None:
        if not self._has_bytes:
            self._has_bytes = True
            waited = time.monotonic_ns() // 1000 - self._asked_us
            self._load.tally.ttfb_us.append(waited)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_ended:
            return
        if self._load.settings.mode == "timed" and not self._has_bytes:
            self._load.dial_again()
        else:
            self._fail()

    def _fail(self) -> None:
        """A broken stream counts once; its connection is not used again."""
        tally = self._load.tally
        tally.errors += 1
        if self._has_head and self._load.settings.mode != "hold":
            tally.lost += self._load.settings.events - self._order.expected
        self._transport.close()
        self._end()

    def _end(self) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._load.on_ended()

    def on_headers_complete(self) -> None:
        if self._parser.get_status_code() != 200:
            self._fail()
            return
        self._has_head = True
        self._load.tally.heads += 1
        if self._load.settings.mode == "hold":
            self._end()

    def on_body(self, body: bytes) -> None:
        now_us = time.monotonic_ns() // 1000
        *lines, self._line = (self._line + body).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                event = json.loads(line[6:])
                sent_us = event["t"] // 1000
                self._order.see(event["seq"], sent_us, now_us, self._load.tally)
            elif line == b"data: [DONE]":
                self._has_done = True

    def on_message_complete(self) -> None:
        if not self._has_head:
            return
        tally, order = self._load.tally, self._order
        tally.streams += 1
        missing = self._load.settings.events - order.expected
        tally.lost += missing
        if self._has_done and not missing and not order.is_spoilt:
            tally.smooth += 1
        if self._load.settings.mode == "timed":
            # Not from inside the parser, which is about to be replaced. A close
            # before then falls between two streams, where it is legal.
            self._has_bytes = False
            asyncio.get_running_loop().call_soon(self._ask_again)
        else:
            self._end()

    def _ask_again(self) -> None:
        if not self._transport.is_closing():
            self.ask()


async def run(settings: argparse.Namespace) -> None:
    """Open all connections, start all streams, and count until it is over."""
    load = Load(settings)
    for _ in range(settings.conns):
        await load.dial()
    if settings.mode == "timed":
        await asyncio.sleep(settings.warmup)
        load.tally = Tally(errors=load.tally.errors)
    print(json.dumps({"phase": "begin"}), flush=True)
    start = time.monotonic()
    await asyncio.wait([load.is_over], timeout=settings.seconds)
    seconds = time.monotonic() - start
    said = {"phase": "end", "conns": settings.conns, "seconds": seconds}
    print(json.dumps(said | load.tally.figures()), flush=True)
    sys.stdin.read()


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--conns", type=int, default=1)
    parser.add_argument("--mode", choices=("timed", "once", "hold"), default="timed")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--warmup", type=float, default=0)
    parser.add_argument("--events", type=int, default=64)
    parser.add_argument("--stall-ms", type=int, default=500)
    parser.add_argument("--body-bytes", type=int, default=450)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
