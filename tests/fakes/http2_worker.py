"""A worker that speaks HTTP/2 as a test tells it to, by the h2 library.

Each POST goes to the test's script in a task of its own, with a stream that answers
like an HTTP/1.1 connection, so that scripts serve both. GETs are answered as an engine
would.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RequestReceived,
    StreamEnded,
    StreamReset,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes

from tests.fakes.worker import Connection, FakeWorker, Received, Script, say_ok

_CONFIG = H2Configuration(client_side=False, header_encoding=None)
OVER = (asyncio.CancelledError, ConnectionError, ProtocolError, KeyError)


class H2Received(Received):
    """A request as the worker got it, pseudo-headers first."""

    def __init__(self, fields: list[tuple[bytes, bytes]]) -> None:
        found = dict(fields)
        method, path = found[b":method"].decode(), found[b":path"].decode()
        super().__init__(method, path, b"\r\n\r\n", b"")
        self.headers = [(name.decode(), value.decode()) for name, value in fields]


class Stream:
    """The worker's end of one stream; what scripts use of a ``Connection``."""

    def __init__(self, peer: Peer, number: int, request: H2Received) -> None:
        self.peer = peer
        self.number = number
        self.request = request
        self.is_ended = False  # the request is whole
        self.reset_code: int | None = None  # the gateway reset it

    async def start(self, status: int, *fields: tuple[str, str]) -> None:
        """A response's head."""
        head = [(":status", str(status)), *fields]
        self.peer.h2.send_headers(self.number, head)
        await self.peer.flush()

    async def answer(
        self, body: bytes, status: int = 200, headers: str = "", kind: str = "json"
    ) -> None:
        """A whole, ordinary answer."""
        length = ("content-length", str(len(body)))
        await self.start(status, ("content-type", f"application/{kind}"), length)
        await self.chunk(body, True)

    async def start_stream(self, headers: str = "") -> None:
        """The head of an event stream."""
        await self.start(200, ("content-type", "text/event-stream"))

    async def chunk(self, data: bytes, end: bool = False) -> None:
        """Body bytes, as the gateway's windows allow."""
        h2 = self.peer.h2
        while data:
            if self.is_gone:
                raise ConnectionError("the gateway takes no more")
            size = min(len(data), h2.local_flow_control_window(self.number), 16384)
            if not size:
                await self.peer.until(self.is_roomy)
                continue
            h2.send_data(self.number, data[:size])
            data = data[size:]
            await self.peer.flush()
        if end:
            h2.end_stream(self.number)
            await self.peer.flush()

    def is_roomy(self) -> bool:
        """Whether a byte may be sent, or never will."""
        return self.is_gone or self.peer.h2.local_flow_control_window(self.number) > 0

    async def end_stream(self) -> None:
        """The end, in a frame of its own."""
        self.peer.h2.end_stream(self.number)
        await self.peer.flush()

    async def reset(self, code: int) -> None:
        """End the stream with an error."""
        self.peer.h2.reset_stream(self.number, ErrorCodes(code))
        await self.peer.flush()

    @property
    def is_gone(self) -> bool:
        """Whether the gateway takes no answer any more."""
        return self.reset_code is not None or self.peer.is_lost

    async def until_gone(self) -> None:
        """Wait until the gateway resets the stream or drops the connection."""
        await self.peer.until(lambda: self.is_gone)


H2Script = Callable[[Stream, Received], Awaitable[None]]


class Peer:
    """The worker's end of one connection."""

    def __init__(
        self,
        worker: H2Worker,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.worker = worker
        self.reader = reader
        self.writer = writer
        self.h2 = H2Connection(_CONFIG)
        self.streams: dict[int, Stream] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.is_lost = False
        self.has_goodbye = False  # the gateway sent GOAWAY
        self._changed = asyncio.Condition()

    async def flush(self) -> None:
        """Write what is queued."""
        data = self.h2.data_to_send()
        if data:
            self.writer.write(data)
            await self.writer.drain()

    async def raw(self, data: bytes) -> None:
        """Write bytes that h2 would not."""
        self.writer.write(data)
        await self.writer.drain()

    def cut(self) -> None:
        """Drop the connection."""
        self.writer.transport.abort()

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Wait for what the gateway does."""
        async with self._changed:
            await self._changed.wait_for(is_true)

    async def serve(self) -> None:
        """Until the gateway goes."""
        settings = self.h2.local_settings
        for name, value in self.worker.settings.items():
            settings[name] = value
        # They count, and are sent, once they are acknowledged.
        while settings.acknowledge():
            pass
        self.h2.initiate_connection()
        await self.flush()
        try:
            while data := await self.reader.read(65536):
                if self.worker.is_deaf:
                    continue
                self.has_goodbye |= b"\0\0\x08\x07\0\0\0\0\0" in data
                for event in self.h2.receive_data(data):
                    self._take(event)
                await self.flush()
                async with self._changed:
                    self._changed.notify_all()
        finally:
            self.is_lost = True
            async with self._changed:
                self._changed.notify_all()
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)

    def _take(self, event: Event) -> None:
        number = getattr(event, "stream_id", 0)
        if isinstance(event, RequestReceived):
            fields = list(event.headers)
            stream = Stream(self, number, H2Received(fields))
            self.streams[number] = stream
            if self.worker.begins_at_head:
                self._begin(stream)
        elif isinstance(event, DataReceived):
            self.streams[number].request.body += event.data
            if self.worker.reads:
                self.h2.acknowledge_received_data(event.flow_controlled_length, number)
        elif isinstance(event, StreamEnded):
            self.streams[number].is_ended = True
            if not self.worker.begins_at_head:
                self._begin(self.streams[number])
        elif isinstance(event, StreamReset):
            self.streams[number].reset_code = int(event.error_code)
        elif isinstance(event, WindowUpdated):
            pass

    def _begin(self, stream: Stream) -> None:
        task = asyncio.get_running_loop().create_task(self.worker.play(stream))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class H2Worker(FakeWorker):
    """A scripted worker that speaks nothing but HTTP/2."""

    def __init__(self, script: Any = say_ok, tls: ssl.SSLContext | None = None) -> None:
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
        super().__init__(cast(Script, script), tls)
        self.settings: dict[SettingCodes | int, int] = {}
        self.begins_at_head = False  # scripts run before the request is whole
        self.reads = True  # gives credit for request bodies
        self.is_deaf = False  # answers nothing any more, not even PING
        self.peers: list[Peer] = []

    @property
    def peer(self) -> Peer:
        """The connection that came last."""
        return self.peers[-1]

    async def stop(self) -> None:
        """Stop listening and drop every connection."""
        await super().stop()
        for peer in self.peers:
            peer.cut()

    async def play(self, stream: Stream) -> None:
        """Answer one request."""
        request = stream.request
        taken = cast(Connection, stream)
        try:
            if request.method == "GET":
                self.probed.append(request)
                await self._probe(taken, request)
            else:
                self.received.append(request)
                await self.script(taken, request)
        except OVER:
            pass

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.accepted += 1
        peer = Peer(self, reader, writer)
        self.peers.append(peer)
        try:
            await peer.serve()
        except (ConnectionError, ProtocolError):
            pass
        finally:
            writer.close()
