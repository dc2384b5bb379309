"""An HTTP/2 client by prior knowledge: as many requests on one connection as wanted."""

from __future__ import annotations

import asyncio
from typing import Self

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
)

from tests.fakes.client import CHAT, Answer

_READ = 64 * 1024


class Http2Client:
    """One connection; it gives every response all the window it needs."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._h2 = H2Connection(H2Configuration(header_encoding="latin-1"))
        self._reader = reader
        self._writer = writer
        self._answers: dict[int, Answer] = {}
        # Streams that are over, whole or reset.
        self._ended: set[int] = set()

    @classmethod
    async def connect(cls, port: int) -> Self:
        """Open a connection and say that it is HTTP/2."""
        client = cls(*await asyncio.open_connection("127.0.0.1", port))
        client._h2.initiate_connection()
        client._flush()
        return client

    def ask(
        self,
        body: bytes = CHAT,
        path: str = "/v1/chat/completions",
        headers: tuple[tuple[str, str], ...] = (),
        *,
        is_whole: bool = True,
    ) -> int:
        """Send a POST, or all of it but its end; the number of its stream.

        The body must fit into the window that every stream has at first.
        """
        stream = self._h2.get_next_available_stream_id()
        fields = [
            *((":method", "POST"), (":scheme", "http"), (":path", path)),
            *((":authority", "gateway"), ("content-type", "application/json")),
            *headers,
        ]
        self._h2.send_headers(stream, fields)
        most = self._h2.max_outbound_frame_size
        for start in range(0, len(body), most):
            self._h2.send_data(stream, body[start : start + most])
        if is_whole:
            self._h2.end_stream(stream)
        self._flush()
        return stream

    async def answer(self, stream: int) -> Answer:
        """Read until a response is over; it is not whole if its stream was reset."""
        while stream not in self._ended:
            data = await self._reader.read(_READ)
            if not data:
                break
            for event in self._h2.receive_data(data):
                self._take(event)
            self._flush()
        return self._answers.setdefault(stream, Answer(0, []))

    def take_back(self, stream: int) -> None:
        """Reset a request that is no longer wanted."""
        self._h2.reset_stream(stream, ErrorCodes.CANCEL)
        self._flush()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    def _take(self, event: Event) -> None:
        if isinstance(event, ResponseReceived):
            assert event.headers is not None and event.stream_id is not None
            fields = [(str(name), str(value)) for name, value in event.headers]
            status = dict(fields)[":status"]
            self._answers[event.stream_id] = Answer(int(status), fields[1:])
        elif isinstance(event, DataReceived):
            assert event.stream_id is not None and event.data is not None
            assert event.flow_controlled_length is not None
            self._answers[event.stream_id].body += event.data
            self._h2.acknowledge_received_data(
                event.flow_controlled_length, event.stream_id
            )
        elif isinstance(event, StreamEnded):
            assert event.stream_id is not None
            self._answers[event.stream_id].is_whole = True
            self._ended.add(event.stream_id)
        elif isinstance(event, StreamReset):
            assert event.stream_id is not None
            self._ended.add(event.stream_id)

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())
