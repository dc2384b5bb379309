"""A worker that answers whatever the dice say, until it is asked to be calm.

With --http2 it also speaks HTTP/2 with prior knowledge.
"""

import argparse
import asyncio
from functools import partial
from typing import cast

import uvloop

from loadtest.tools.h2frames import PREFACE
from loadtest.tools.incoming import Incoming
from loadtest.tools.misdeeds import Asked, about_itself, break_off
from loadtest.tools.unruly_http2 import Http2


class Http1(Incoming):
    """One connection; answers one request at a time."""

    def __init__(self, transport: asyncio.Transport) -> None:
        super().__init__()
        self._transport = transport
        self._asked: Asked | None = None
        self._is_chunked = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._asked is not None:
            self._asked.drop()

    def on_message_complete(self) -> None:
        if self._is_get:
            body = about_itself(self._path)
            self.head(200, len(body))
            self.write(body)
            return
        self._asked = Asked(self, b"".join(self._body))
        self._asked.act()

    def head(self, status: int, length: int | None) -> None:
        self._is_chunked = length is None
        kind, framing = b"application/json", b"content-length: %d" % (length or 0)
        if self._is_chunked:
            kind, framing = b"text/event-stream", b"transfer-encoding: chunked"
        self._transport.write(
            b"HTTP/1.1 %d Said\r\ncontent-type: %b\r\n%b\r\n\r\n"
            % (status, kind, framing)
        )

    def write(self, data: bytes) -> None:
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self._transport.write(data)

    def end(self) -> None:
        if self._is_chunked:
            self._transport.write(b"0\r\n\r\n")

    def cut(self) -> None:
        self._transport.close()

    def reset(self) -> None:
        break_off(self._transport)

    def talk_rubbish(self) -> None:
        self._transport.write(b"no HTTP at all\r\n\r\n")
        self._transport.close()


class Door(asyncio.Protocol):
    """A connection that has not said yet which HTTP it speaks."""

    def __init__(self, has_http2: bool) -> None:
        self._has_http2 = has_http2
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        is_http2 = self._has_http2 and data.startswith(PREFACE[:14])
        inner = (Http2 if is_http2 else Http1)(self._transport)
        self._transport.set_protocol(inner)
        inner.data_received(data)


async def serve(settings: argparse.Namespace) -> None:
    """Listen until killed."""
    loop = asyncio.get_running_loop()
    door = partial(Door, settings.http2)
    server = await loop.create_server(door, "127.0.0.1", settings.port, backlog=4096)
    await server.serve_forever()


def main() -> None:
    """Read the arguments and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--http2", action="store_true")
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
