"""What an unruly worker does with a request, whatever HTTP it came by.

It works, is slow, refuses with 429, 500 or 503, stops halfway, stalls, resets or speaks
no HTTP. What it does answer repeats the request's number, so that an answer which
reaches another client is noticed.
"""

import asyncio
import json
import random
import socket
import struct
from collections.abc import Callable
from typing import Protocol

from loadtest.tools.upstream import fact

EVENTS = 5
EVENT_SECS = (0.001, 0.05)
SLOW_SECS = (0.05, 0.8)
REFUSALS = (429, 500, 503)
# RST instead of FIN when it is closed (SO_LINGER on, 0 s).
_ABORTIVE = struct.pack("ii", 1, 0)


class Wire(Protocol):
    """Where one answer goes: a connection of HTTP/1.1, or a stream of HTTP/2."""

    def head(self, status: int, length: int | None) -> None:
        """Begin a JSON answer of this length; None: one of events."""

    def write(self, data: bytes) -> None:
        """Some of the body."""

    def end(self) -> None:
        """The answer is whole."""

    def cut(self) -> None:
        """Close it in the middle."""

    def reset(self) -> None:
        """Close it abruptly."""

    def talk_rubbish(self) -> None:
        """Send what is no HTTP."""


class Asked:
    """One request, and what is done about it."""

    running: set["Asked"] = set()
    answered = 0
    is_calm = False

    def __init__(self, wire: Wire, body: bytes) -> None:
        asked = json.loads(body)
        self._number = int(asked["user"])
        self._is_stream = asked["stream"]
        self._wire = wire
        self._sent = 0
        self._later: asyncio.TimerHandle | None = None
        self.running.add(self)

    def act(self) -> None:
        """Do anything, or what was asked for when it is calm."""
        choice = (self.work,) if Asked.is_calm else self._acts()
        random.choice(choice)()

    def drop(self) -> None:
        """The gateway is not interested any more, or has gone."""
        self.running.discard(self)
        if self._later is not None:
            self._later.cancel()

    def _acts(self) -> tuple[Callable[[], None], ...]:
        well = (self.work,) * 8 + (self._be_slow,) * 3
        ill = (self._refuse,) * 3 + (self._stop_halfway,) * 2
        wire = self._wire
        return (*well, *ill, self._stall, wire.reset, wire.talk_rubbish)

    def work(self) -> None:
        """Do what was asked for."""
        if self._is_stream:
            self._wire.head(200, None)
            self._send_event()
        else:
            self._finish(200)

    def _be_slow(self) -> None:
        self._after(random.uniform(*SLOW_SECS), self.work)

    def _refuse(self) -> None:
        self._finish(random.choice(REFUSALS))

    def _stop_halfway(self) -> None:
        self._send_half()
        self._wire.cut()

    def _stall(self) -> None:
        if random.random() < 0.5:
            self._send_half()

    def _send_half(self) -> None:
        if self._is_stream:
            self._wire.head(200, None)
            self._wire.write(b'data: {"echo":%d,"seq":0}\n\n' % self._number)
        else:
            self._wire.head(200, 900)
            self._wire.write(b'{"echo":')

    def _send_event(self) -> None:
        if self._sent == EVENTS:
            self._wire.write(b"data: [DONE]\n\n")
            self._end()
            return
        event = b'data: {"echo":%d,"seq":%d}\n\n' % (self._number, self._sent)
        self._wire.write(event)
        self._sent += 1
        self._after(random.uniform(*EVENT_SECS), self._send_event)

    def _finish(self, status: int) -> None:
        body = b'{"echo":%d}' % self._number
        self._wire.head(status, len(body))
        self._wire.write(body)
        self._end()

    def _end(self) -> None:
        Asked.answered += 1
        self.running.discard(self)
        self._wire.end()

    def _after(self, secs: float, act: Callable[[], None]) -> None:
        self._later = asyncio.get_running_loop().call_later(secs, act)


def about_itself(path: bytes) -> bytes:
    """The answer to a GET."""
    if path == b"/sim/calm":
        Asked.is_calm = True
        Asked.answered = 0
    elif path == b"/sim/state":
        state = {"running": len(Asked.running), "answered": Asked.answered}
        return json.dumps(state).encode()
    return fact(path)


def break_off(transport: asyncio.Transport) -> None:
    """Close a connection so that the other side is told it was reset."""
    wire = transport.get_extra_info("socket")
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORTIVE)
    transport.abort()
