"""An unruly worker's end of an HTTP/2 connection, by the h2 library."""

import asyncio
import random

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset
from h2.exceptions import ProtocolError

from loadtest.tools.h2frames import GOAWAY, frame
from loadtest.tools.misdeeds import Asked, about_itself, break_off

CONFIG = H2Configuration(client_side=False, header_encoding=None)
# How often what befalls a request befalls its connection, with all that is on it.
SHARED_FATE = 0.2


class Http2(asyncio.Protocol):
    """One connection."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self.h2 = H2Connection(CONFIG)
        self.streams: dict[int, Stream] = {}
        self.newest = 0
        self.h2.initiate_connection()
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        for stream in self.streams.values():
            stream.drop()

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.h2.receive_data(data):
                self._take(event)
        except ProtocolError:
            self.transport.close()
        self.flush()

    def flush(self) -> None:
        """Send what is queued."""
        data = self.h2.data_to_send()
        if data and not self.transport.is_closing():
            self.transport.write(data)

    def _take(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            assert event.stream_id is not None
            self.newest = event.stream_id
            fields = dict(event.headers or ())
            self.streams[self.newest] = Stream(self, self.newest, fields[b":path"])
        elif isinstance(event, DataReceived):
            self.h2.acknowledge_received_data(
                event.flow_controlled_length or 0, event.stream_id or 0
            )
            self.streams[event.stream_id or 0].body.append(event.data or b"")
        elif isinstance(event, StreamEnded):
            self.streams[event.stream_id or 0].answer()
        elif isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams.pop(event.stream_id).drop()


class Stream:
    """One request and its answer, which is small enough for any window."""

    def __init__(self, connection: Http2, number: int, path: bytes) -> None:
        self.body: list[bytes] = []
        self._connection = connection
        self._number = number
        self._path = path
        self._asked: Asked | None = None

    def answer(self) -> None:
        """The request is whole."""
        body = b"".join(self.body)
        if not body:
            about = about_itself(self._path)
            self.head(200, len(about))
            self.write(about)
            self.end()
            return
        self._asked = Asked(self, body)
        self._asked.act()

    def drop(self) -> None:
        """The gateway takes no answer any more."""
        if self._asked is not None:
            self._asked.drop()

    def head(self, status: int, length: int | None) -> None:
        fields = [(":status", str(status)), ("content-type", "application/json")]
        if length is None:
            fields[1] = ("content-type", "text/event-stream")
        else:
            fields.append(("content-length", str(length)))
        self._connection.h2.send_headers(self._number, fields)
        self._connection.flush()

    def write(self, data: bytes) -> None:
        self._connection.h2.send_data(self._number, data)
        self._connection.flush()

    def end(self) -> None:
        self._connection.h2.end_stream(self._number)
        self._connection.streams.pop(self._number, None)
        self._connection.flush()

    def cut(self) -> None:
        """The connection's end, or the stream's with an error."""
        if random.random() < SHARED_FATE:
            self._connection.transport.close()
        else:
            self._reset(ErrorCodes.INTERNAL_ERROR)

    def reset(self) -> None:
        """Refuse it, tell a fault, or reset the connection."""
        if random.random() < SHARED_FATE:
            break_off(self._connection.transport)
        else:
            codes = (ErrorCodes.REFUSED_STREAM, ErrorCodes.ENHANCE_YOUR_CALM)
            self._reset(random.choice(codes))

    def talk_rubbish(self) -> None:
        """Say goodbye and answer, or send what is no frame."""
        connection = self._connection
        if random.random() < SHARED_FATE:
            connection.transport.write(b"no HTTP at all\r\n\r\n")
            connection.transport.close()
            return
        last = connection.newest.to_bytes(4, "big") + bytes(4)
        connection.transport.write(frame(GOAWAY, 0, 0, last))
        assert self._asked is not None
        self._asked.work()

    def _reset(self, code: ErrorCodes) -> None:
        self._connection.h2.reset_stream(self._number, code)
        self._connection.streams.pop(self._number, None)
        self.drop()
        self._connection.flush()
