"""A worker that answers whatever the dice say, until it is asked to be calm.

It works, is slow, refuses with 429, 500 or 503, stops halfway, stalls, resets the
connection or speaks no HTTP. What it does answer repeats the request's number, so that
an answer which reaches another client is noticed.
"""

import argparse
import asyncio
import json
import random
import socket
import struct
from collections.abc import Callable
from typing import cast

import httptools
import uvloop

from loadtest.tools.upstream import STREAM_END, STREAM_HEAD, fact

OK_HEAD = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
REFUSALS = (b"429 Too Many Requests", b"500 Internal Server Error", b"503 Busy")
EVENTS = 5
EVENT_SECS = (0.001, 0.05)
SLOW_SECS = (0.05, 0.8)
# RST instead of FIN when it is closed (SO_LINGER on, 0 s).
_ABORTIVE = struct.pack("ii", 1, 0)


def event(number: int, seq: int) -> bytes:
    """One event of an answer, as a chunk."""
    text = b'data: {"echo":%d,"seq":%d}\n\n' % (number, seq)
    return b"%x\r\n%b\r\n" % (len(text), text)


class Unruly(asyncio.Protocol):
    """One connection; answers one request at a time."""

    running: set["Unruly"] = set()
    answered = 0
    is_calm = False

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body: list[bytes] = []
        self._number = 0
        self._is_stream = False
        self._left = 0
        self._transport: asyncio.Transport
        self._later: asyncio.TimerHandle | None = None

    # -- asyncio and httptools -------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.running.discard(self)
        if self._later is not None:
            self._later.cancel()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path = url
        self._body = []

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            self._answer(b"200 OK", self._about_itself())
            return
        asked = json.loads(b"".join(self._body))
        self._number = int(asked["user"])
        self._is_stream = asked["stream"]
        self.running.add(self)
        acts = (self._work,) if Unruly.is_calm else self._acts()
        random.choice(acts)()

    def _about_itself(self) -> bytes:
        if self._path == b"/sim/calm":
            Unruly.is_calm = True
            Unruly.answered = 0
        elif self._path == b"/sim/state":
            state = {"running": len(self.running), "answered": Unruly.answered}
            return json.dumps(state).encode()
        return fact(self._path)

    # -- what it may do --------------------------------------------------------------

    def _acts(self) -> tuple[Callable[[], None], ...]:
        well = (self._work,) * 8 + (self._be_slow,) * 3
        ill = (self._refuse,) * 3 + (self._stop_halfway,) * 2
        return (*well, *ill, self._stall, self._reset, self._talk_rubbish)

    def _work(self) -> None:
        if not self._is_stream:
            self._finish(b"200 OK")
            return
        self._transport.write(STREAM_HEAD)
        self._left = EVENTS
        self._send_event()

    def _be_slow(self) -> None:
        self._after(random.uniform(*SLOW_SECS), self._work)

    def _refuse(self) -> None:
        self._finish(random.choice(REFUSALS))

    def _stop_halfway(self) -> None:
        self._send_half()
        self._transport.close()

    def _stall(self) -> None:
        if random.random() < 0.5:
            self._send_half()

    def _reset(self) -> None:
        wire = self._transport.get_extra_info("socket")
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
        self._transport.abort()

    def _talk_rubbish(self) -> None:
        self._transport.write(b"no HTTP at all\r\n\r\n")
        self._transport.close()

    # -- pieces ----------------------------------------------------------------------

    def _send_half(self) -> None:
        if self._is_stream:
            self._transport.write(STREAM_HEAD + event(self._number, 0))
        else:
            self._transport.write(OK_HEAD % (b"200 OK", 900) + b'{"echo":')

    def _send_event(self) -> None:
        if not self._left:
            self.running.discard(self)
            Unruly.answered += 1
            self._transport.write(STREAM_END)
            return
        self._transport.write(event(self._number, EVENTS - self._left))
        self._left -= 1
        self._after(random.uniform(*EVENT_SECS), self._send_event)

    def _finish(self, status: bytes) -> None:
        self.running.discard(self)
        Unruly.answered += 1
        self._answer(status, b'{"echo":%d}' % self._number)

    def _answer(self, status: bytes, body: bytes) -> None:
        self._transport.write(OK_HEAD % (status, len(body)) + body)

    def _after(self, secs: float, act: Callable[[], None]) -> None:
        self._later = asyncio.get_running_loop().call_later(secs, act)


async def serve(port: int) -> None:
    """Listen until killed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Unruly, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
