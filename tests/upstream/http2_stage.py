"""One HTTP/2 connection to a worker without sockets; its worker's end is h2's."""

from __future__ import annotations

import asyncio

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, Event, RequestReceived, StreamEnded, StreamReset

from smgproxy.core.message import WorkerRequest
from smgproxy.upstream.http2 import SharedConnection
from smgproxy.upstream.http2_leg import Http2Leg
from tests.upstream.stage import DEADLINE, FakeLoop, Plant, ask

JSON = [(":status", "200"), ("content-type", "application/json")]


class SharedLine:
    """A connection and its worker, who answers when the test says so."""

    def __init__(
        self, loop: FakeLoop, settings: dict[int, int] | None = None, **pool: float
    ) -> None:
        self.loop = loop
        self.plant = Plant(loop, **pool)
        self.plant.worker.http2 = True
        self.pool = self.plant.pool
        connection = asyncio.run(self.pool.connect(DEADLINE))
        assert isinstance(connection, SharedConnection)
        self.connection = connection
        self.transport = loop.transports[-1]
        self.worker = H2Connection(
            H2Configuration(client_side=False, header_encoding="latin-1")
        )
        for name, value in (settings or {}).items():
            self.worker.local_settings[name] = value
        while self.worker.local_settings.acknowledge():
            pass
        self.worker.initiate_connection()
        self.heard: list[Event] = []

    def send(self, body: bytes = b"{}", deadline: float = DEADLINE) -> Http2Leg:
        """Send a request, and let the worker have it."""
        leg = self.connection.send(ask(body), b"w", deadline)
        self.turn()
        return leg

    def upload(self) -> Http2Leg:
        """Begin a request whose body is to follow."""
        leg = self.connection.upload(
            WorkerRequest(b"POST", b"/v1/x", []), b"w", DEADLINE
        )
        self.turn()
        return leg

    def turn(self) -> None:
        """Everything gets to the other side, both ways, until nobody says more."""
        while True:
            self.loop.turn()
            sent = self.transport.take_sent()
            if sent:
                self.heard += self.worker.receive_data(sent)
            said = self.worker.data_to_send()
            if said and not self.transport.is_closing():
                self.transport.peer_sends(said)
            elif not sent and self.loop.is_idle:
                self.transport.turn()
                return

    def answer(self, stream_id: int, body: bytes = b"ok") -> None:
        """A whole answer."""
        self.worker.send_headers(stream_id, JSON)
        self.worker.send_data(stream_id, body, end_stream=True)
        self.turn()

    def head(self, stream_id: int, *fields: tuple[str, str], end: bool = False) -> None:
        """The head of an answer, 200 unless ``fields`` say otherwise."""
        self.worker.send_headers(stream_id, list(fields) or JSON, end_stream=end)
        self.turn()

    def data(self, stream_id: int, data: bytes, end: bool = False) -> None:
        """Body bytes."""
        self.worker.send_data(stream_id, data, end_stream=end)
        self.turn()

    def says(self, raw: bytes) -> None:
        """Bytes that h2 would not send; one read."""
        self.transport.peer_sends(raw)
        self.turn()

    def bodies(self) -> dict[int, bytes]:
        """What the worker got of requests' bodies, by stream."""
        got: dict[int, bytes] = {}
        for event in self.heard:
            if isinstance(event, DataReceived):
                number = event.stream_id
                got[number] = got.get(number, b"") + event.data
        return got

    def requests(self) -> list[int]:
        """The streams that were opened."""
        return [e.stream_id for e in self.heard if isinstance(e, RequestReceived)]

    def ended(self) -> list[int]:
        """The streams whose requests are whole."""
        return [e.stream_id for e in self.heard if isinstance(e, StreamEnded)]

    def resets(self) -> dict[int, int]:
        """Streams that the gateway ended, and why."""
        return {
            e.stream_id: int(e.error_code)
            for e in self.heard
            if isinstance(e, StreamReset)
        }

    @property
    def goodbye(self) -> int | None:
        """The code of the GOAWAY that was sent."""
        for data in reversed(self.transport.syscalls):
            at = data.find(b"\0\0\x08\x07\0\0\0\0\0")
            if at >= 0:
                return int.from_bytes(data[at + 13 : at + 17], "big")
        return None
