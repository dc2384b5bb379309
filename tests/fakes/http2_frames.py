"""An HTTP/2 client by prior knowledge, whose every frame a test decides about."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

import h2.events as events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes

from tests.fakes.client import CHAT, Client

_CONFIG = H2Configuration(client_side=True, header_encoding="utf-8")
_READ = 256 * 1024


class Http2Answer:
    """One response, as far as it has come."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.is_whole = False
        self.reset: int | None = None

    @property
    def status(self) -> int:
        """Its status; 0 before its head."""
        return int(self.headers.get(":status", 0))

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self.is_whole or self.reset is not None


class Http2Client:
    """One connection; it reads only while a test waits for something.

    ``is_reading``: whether what is read of bodies is credited to the gateway.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self.h2 = H2Connection(_CONFIG)
        self.answers: dict[int, Http2Answer] = {}
        self.is_reading = True
        self.goaway: int | None = None
        self.is_closed = False

    @classmethod
    async def connect(cls, port: int, window: int = 1 << 20) -> Self:
        """Open a connection; ``window``: what each response may send unread."""
        made = cls(await Client.connect(port))
        made.h2.initiate_connection()
        made.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: window})
        made.h2.increment_flow_control_window(1 << 24)
        await made.flush()
        return made

    async def flush(self) -> None:
        """Send what is queued."""
        if data := self.h2.data_to_send():
            await self._client.send(data)

    async def open(self, *fields: tuple[str, str], path: str = "", **kw: bool) -> int:
        """The head of a POST whose body is to come; its stream."""
        stream_id = self.h2.get_next_available_stream_id()
        usual = [
            *((":method", "POST"), (":scheme", "http"), (":authority", "g")),
            (":path", path or "/v1/chat/completions"),
            ("content-type", "application/json"),
        ]
        self.h2.send_headers(stream_id, [*usual, *fields], **kw)
        self.answers[stream_id] = Http2Answer()
        await self.flush()
        return stream_id

    async def body(self, stream_id: int, data: bytes, end: bool = True) -> None:
        """Upload, as the gateway's windows allow."""
        while data and not self.answers[stream_id].is_over:
            room = min(
                self.h2.local_flow_control_window(stream_id),
                self.h2.max_outbound_frame_size,
            )
            if not room:
                await self.read()
                continue
            piece, data = data[:room], data[room:]
            self.h2.send_data(stream_id, piece, end_stream=end and not data)
            await self.flush()

    async def post(self, body: bytes = CHAT, path: str = "") -> int:
        """A whole request; its stream."""
        stream_id = await self.open(path=path)
        await self.body(stream_id, body)
        return stream_id

    async def ask(self, body: bytes = CHAT, path: str = "") -> Http2Answer:
        """A whole request and its answer."""
        answer = self.answers[await self.post(body, path)]
        await self.until(lambda: answer.is_over)
        return answer

    async def reset(self, stream_id: int) -> None:
        """Take a stream back."""
        self.h2.reset_stream(stream_id, ErrorCodes.CANCEL)
        await self.flush()

    async def until(self, is_true: Callable[[], object], secs: float = 15.0) -> None:
        """Read until something is so."""
        async with asyncio.timeout(secs):
            while not is_true():
                assert not self.is_closed, "the gateway closed the connection"
                await self.read()

    async def read(self) -> None:
        """One read, and what it asks for."""
        data = await self._client.reader.read(_READ)
        if not data:
            self.is_closed = True
            return
        for event in self.h2.receive_data(data):
            self._hear(event)
        await self.flush()

    def close(self) -> None:
        """Close in good order."""
        self._client.close()

    def _hear(self, event: events.Event) -> None:
        if isinstance(event, events.ResponseReceived):
            pairs = ((str(name), str(value)) for name, value in event.headers)
            self.answers[event.stream_id].headers = dict(pairs)
        elif isinstance(event, events.DataReceived):
            self.answers[event.stream_id].body += event.data
            if self.is_reading:
                size = event.flow_controlled_length
                self.h2.acknowledge_received_data(size, event.stream_id)
        elif isinstance(event, events.StreamEnded):
            self.answers[event.stream_id].is_whole = True
        elif isinstance(event, events.StreamReset):
            self.answers[event.stream_id].reset = int(event.error_code)
        elif isinstance(event, events.ConnectionTerminated):
            self.goaway = int(event.error_code or 0)
