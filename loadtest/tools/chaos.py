"""Clients in front of an unruly fleet: asks, checks every answer, gives some up.

Half of them have an HTTP/1.1 connection each, the others share a few of HTTP/2. Prints
one line of JSON at the end: answers by status and code, and those nobody should get,
whose particulars go to standard error.
"""

import argparse
import asyncio
import json
import random
import sys
from collections import Counter
from typing import Protocol

import httptools
import uvloop

from loadtest.tools.contract import Answer, Stray
from loadtest.tools.h2frames import DATA, HEADERS, RST_STREAM, ClientSide, Frame, reset

PATH = "/v1/chat/completions"
CODE = "x-smg-error-code"
CLIENTS_A_CONNECTION = 20
PAUSE_SECS = (0.0, 0.2)
TURNED_AWAY = "503 no_available_workers"
TURNED_AWAY_SECS = (0.2, 1.0)
GIVEN_UP = 0.05  # of the requests
# Bodies of this size are read in many pieces; over HTTP/2 they would need credit.
LONG, LONG_BYTES = 0.02, 1_500_000
STRAYS_TOLD = 20


class Link(Protocol):
    """A connection, for one client or several."""

    async def ask(self, answer: Answer, filler: int) -> "asyncio.Future[None]":
        """Send the request; done when the answer is there or will not come."""

    def give_up(self, answer: Answer) -> None:
        """The client has no interest any more."""


class Http1(asyncio.Protocol):
    """One client's connection, opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._answer: Answer | None = None
        self._done: asyncio.Future[None]
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser

    async def ask(self, answer: Answer, filler: int) -> "asyncio.Future[None]":
        """Send the request, on a new connection if need be."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            made = await loop.create_connection(lambda: self, "127.0.0.1", self._port)
            self._transport = made[0]
        self._answer, self._done = answer, loop.create_future()
        self._parser = httptools.HttpResponseParser(self)
        body = answer.request(filler)
        self._transport.write(
            b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (PATH.encode(), len(body), body)
        )
        return self._done

    def give_up(self, answer: Answer) -> None:
        """Close the connection."""
        self._answer = None
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end()

    def data_received(self, data: bytes) -> None:
        if self._answer is not None:
            self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._answer is not None and name.lower() == CODE.encode():
            self._answer.code = value.decode()

    def on_body(self, body: bytes) -> None:
        if self._answer is not None:
            self._answer.body += body

    def on_message_complete(self) -> None:
        if self._answer is not None:
            self._answer.status = str(self._parser.get_status_code())
            self._answer.is_whole = True
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()
        self._end()

    def _end(self) -> None:
        if self._answer is not None:
            self._answer = None
            self._done.set_result(None)


class Http2(asyncio.Protocol):
    """A connection that several clients share, opened again when it was closed."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._asked: dict[int, tuple[Answer, asyncio.Future[None]]] = {}
        self._dialling = asyncio.Lock()
        self._transport: asyncio.Transport | None = None
        self._side: ClientSide

    async def ask(self, answer: Answer, filler: int) -> "asyncio.Future[None]":
        """Send the request on a new stream."""
        loop = asyncio.get_running_loop()
        async with self._dialling:
            if self._transport is None or self._transport.is_closing():
                self._side = ClientSide()
                made = await loop.create_connection(
                    lambda: self, "127.0.0.1", self._port
                )
                self._transport = made[0]
                self._transport.write(self._side.opening())
        stream, request = self._side.post(self._port, PATH, answer.request(0))
        done = loop.create_future()
        self._asked[stream] = answer, done
        self._transport.write(request)
        return done

    def give_up(self, answer: Answer) -> None:
        """Reset the stream."""
        for stream, (asked, _) in [*self._asked.items()]:
            if asked is answer and self._transport is not None:
                del self._asked[stream]
                self._transport.write(reset(stream))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for stream in [*self._asked]:
            self._end(stream)

    def data_received(self, data: bytes) -> None:
        for found in self._side.feed(data):
            # Every head keeps the compression's state, those of reset streams too.
            fields = self._side.fields(found) if found.kind == HEADERS else {}
            if found.stream in self._asked:
                self._take(found, fields)
        if self._side.replies and self._transport is not None:
            self._transport.write(b"".join(self._side.replies))
            self._side.replies.clear()

    def _take(self, found: Frame, fields: dict[str, str]) -> None:
        answer, _ = self._asked[found.stream]
        answer.status = fields.get(":status", answer.status)
        answer.code = fields.get(CODE, answer.code)
        if found.kind == DATA:
            answer.body += found.payload
        if found.ends_stream:
            answer.is_whole = found.kind != RST_STREAM
            self._end(found.stream)

    def _end(self, stream: int) -> None:
        _, done = self._asked.pop(stream)
        done.set_result(None)


class Storm:
    """What all clients ask and were answered."""

    def __init__(self, deadline_secs: float) -> None:
        self.is_over = False
        self._deadline_secs = deadline_secs
        self._answers: Counter[str] = Counter()
        self._counts = dict.fromkeys(("asked", "given_up", "strays", "unanswered"), 0)
        self._slowest = 0.0

    async def client(self, link: Link) -> None:
        """One request after the other."""
        while not self.is_over:
            is_turned_away = await self._ask(link) == TURNED_AWAY
            pause = TURNED_AWAY_SECS if is_turned_away else PAUSE_SECS
            await asyncio.sleep(random.uniform(*pause))

    async def _ask(self, link: Link) -> str:
        """Ask once; the answer's label, if it is one of the contract."""
        loop = asyncio.get_running_loop()
        self._counts["asked"] += 1
        answer = Answer(self._counts["asked"], random.random() < 0.5)
        began = loop.time()
        done = await link.ask(answer, LONG_BYTES if random.random() < LONG else 0)
        is_given_up = random.random() < GIVEN_UP
        patience = random.uniform(0, 0.5) if is_given_up else 2 * self._deadline_secs
        # Twice the time, to tell one that is late from one that never comes.
        await asyncio.wait([done], timeout=patience)
        if not done.done():
            link.give_up(answer)
            self._counts["given_up" if is_given_up else "unanswered"] += 1
            return ""
        self._slowest = max(self._slowest, loop.time() - began)
        try:
            label = answer.label()
        except Stray as stray:
            self._counts["strays"] += 1
            if self._counts["strays"] <= STRAYS_TOLD:
                kind = type(link).__name__
                print(f"chaos: {kind} {answer.number}: {stray}", file=sys.stderr)
            return ""
        self._answers[label] += 1
        return label

    def figures(self) -> dict[str, float]:
        """What is said at the end."""
        return {**self._answers, **self._counts, "slowest": self._slowest}


async def run(settings: argparse.Namespace) -> None:
    """Ask for the set time, wait for what is still to come, say what it was."""
    storm = Storm(settings.deadline)
    half = settings.clients // 2
    links: list[Link] = [Http1(settings.port) for _ in range(settings.clients - half)]
    for begin in range(0, half, CLIENTS_A_CONNECTION):
        shared = Http2(settings.port)
        links += [shared] * min(CLIENTS_A_CONNECTION, half - begin)
    async with asyncio.TaskGroup() as clients:
        for link in links:
            clients.create_task(storm.client(link))
        await asyncio.sleep(settings.seconds)
        storm.is_over = True
    print(json.dumps({"phase": "end"} | storm.figures()), flush=True)


def main() -> None:
    """Read the arguments and run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--deadline", type=float, default=8)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
