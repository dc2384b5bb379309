"""The requests that come to a worker of a trial, each put together."""

import asyncio
from typing import cast

import httptools


class Incoming(asyncio.Protocol):
    """One connection of a gateway's; ``on_message_complete`` is left to say."""

    def __init__(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._body: list[bytes] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def on_url(self, url: bytes) -> None:
        self._path = url
        self._body = []

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    @property
    def _is_get(self) -> bool:
        """Whether it is a question of the gateway's own; the others are POSTs."""
        return bool(self._parser.get_method() == b"GET")
