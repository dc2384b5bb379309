"""Realtime sessions over HTTP/2 (RFC 8441): one stream each, the frames in DATA."""

from __future__ import annotations

import asyncio

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import DataFrame, Frame, GoAwayFrame

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.websocket import (
    CLOSE,
    TEXT,
    Peer,
    RealtimeWorker,
    accept,
    close_payload,
    echo,
    frame,
)
from tests.fakes.worker import Connection, Received


class Http2Socket:
    """One HTTP/2 connection with one WebSocket on it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._h2 = H2Connection(
            H2Configuration(header_encoding="latin-1", validate_outbound_headers=False)
        )
        self._reader, self._writer = reader, writer
        self.frames = asyncio.StreamReader()
        self.headers: dict[str, str] = {}
        self.is_ended = False
        self.is_reset = False
        self.peer = Peer(self.frames, self._send, True)

    @classmethod
    async def connect(cls, port: int) -> Http2Socket:
        """Connect, and wait for the gateway's settings."""
        made = cls(*await asyncio.open_connection("127.0.0.1", port))
        made._h2.initiate_connection()
        made._flush()
        while not made.offers_connect:
            await made._turn()
        return made

    @property
    def offers_connect(self) -> bool:
        """Whether the gateway said that it takes extended CONNECTs."""
        settings = self._h2.remote_settings
        return settings.get(SettingCodes.ENABLE_CONNECT_PROTOCOL) == 1

    async def open(self, path: str = "/v1/realtime?model=m", **fields: str) -> str:
        """Ask for a session; the status of the answer."""
        self._h2.send_headers(
            1,
            [
                *((":method", "CONNECT"), (":protocol", "websocket")),
                *((":scheme", "http"), (":path", path), (":authority", "g")),
                ("sec-websocket-version", "13"),
                *[(name.replace("_", "-"), value) for name, value in fields.items()],
            ],
        )
        self._flush()
        while not self.headers and not self.is_reset:
            await self._turn()
        return self.headers.get(":status", "reset")

    async def read_on(self) -> None:
        """Read until the stream is over."""
        while not (self.is_ended or self.is_reset):
            await self._turn()

    def finish(self) -> None:
        """End the stream, and nothing else."""
        self._h2.end_stream(1)
        self._flush()

    def reset(self) -> None:
        """Take the stream back."""
        self._h2.reset_stream(1)
        self._flush()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def rest(self) -> list[Frame]:
        """All that still comes, unread by h2: it takes no frame behind a GOAWAY."""
        data, frames = await self._reader.read(-1), []
        while data:
            one, size = Frame.parse_frame_header(memoryview(data[:9]))
            one.parse_body(memoryview(data[9 : 9 + size]))
            frames.append(one)
            data = data[9 + size :]
        return frames

    async def _send(self, data: bytes) -> None:
        for at in range(0, len(data), 16384):
            piece = data[at : at + 16384]
            while self._h2.local_flow_control_window(1) < len(piece):
                await self._turn()
            self._h2.send_data(1, piece)
            self._flush()

    async def _turn(self) -> None:
        data = await self._reader.read(65536)
        if not data:
            self.is_reset = True
            return
        for event in self._h2.receive_data(data):
            if isinstance(event, ResponseReceived):
                self.headers = {str(k): str(v) for k, v in event.headers or ()}
            elif isinstance(event, DataReceived):
                self.frames.feed_data(event.data or b"")
                self._h2.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            elif isinstance(event, StreamEnded):
                self.is_ended = True
                self.frames.feed_eof()
            elif isinstance(event, StreamReset):
                self.is_reset = True
        self._flush()

    def _flush(self) -> None:
        self._writer.write(self._h2.data_to_send())


def test_a_session_over_a_stream() -> None:
    async def scene(stage: Stage) -> None:
        socket = await Http2Socket.connect(stage.port)
        assert await socket.open(sec_websocket_protocol="realtime, k") == "200"
        names = sorted(socket.headers)
        assert names == [":status", "date", "x-request-id"]
        big = b"*" * 300_000
        await socket.peer.text("hello")
        await socket.peer.send(TEXT, big)
        await socket.peer.close(1000, "bye")
        await socket.read_on()
        assert (await socket.peer.read()).payload == b"hello"
        assert (await socket.peer.read()).payload == big
        got = await socket.peer.read()
        assert (got.opcode, got.code, got.reason) == (CLOSE, 1000, "bye")
        assert socket.is_ended
        assert stage.worker.received[0].path == "/v1/realtime?model=m"
        socket.close()

    play(scene, echo, kind=RealtimeWorker)


def test_what_is_refused_is_an_ordinary_answer() -> None:
    async def scene(stage: Stage) -> None:
        for path, status in (
            ("/v1/realtime", "400"),
            ("/v1/realtime?model=nobody", "404"),
            ("/v1/chat/completions", "405"),
        ):
            socket = await Http2Socket.connect(stage.port)
            assert await socket.open(path) == status
            socket.close()

    play(scene, echo, kind=RealtimeWorker)


def test_a_stream_that_is_taken_back_ends_the_session() -> None:
    async def scene(stage: Stage) -> None:
        for leave in (Http2Socket.reset, Http2Socket.finish, Http2Socket.close):
            socket = await Http2Socket.connect(stage.port)
            assert await socket.open() == "200"
            leave(socket)
            await eventually(lambda: not stage.worker.open)
            socket.close()
        assert stage.gateway.realtime.stats.closes == {("client", "1006"): 3}

    play(scene, echo, kind=RealtimeWorker)


def test_a_worker_that_is_lost_is_a_1011_here_too() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await accept(connection, request)
        connection.reset()

    async def scene(stage: Stage) -> None:
        socket = await Http2Socket.connect(stage.port)
        assert await socket.open() == "200"
        await socket.read_on()
        assert (await socket.peer.read()).code == 1011
        socket.close()

    play(scene, script, kind=RealtimeWorker)


def test_a_broken_frame_is_answered_with_a_close() -> None:
    async def scene(stage: Stage) -> None:
        socket = await Http2Socket.connect(stage.port)
        assert await socket.open() == "200"
        await socket.peer.send_raw(b"\x81\x01x")
        await socket.read_on()
        assert (await socket.peer.read()).code == 1002
        socket.close()

    play(scene, echo, kind=RealtimeWorker)


def test_limits_are_told_here_too() -> None:
    async def scene(stage: Stage) -> None:
        socket = await Http2Socket.connect(stage.port)
        assert await socket.open() == "200"
        await socket.read_on()
        got = await socket.peer.read()
        assert (got.code, got.reason) == (1001, "idle for 1 seconds")
        socket.close()

    limits = {"realtime_idle_timeout_secs": 1}
    play(scene, echo, kind=RealtimeWorker, realtime=limits)


def test_the_end_of_the_gateway_is_the_end_of_the_session() -> None:
    async def scene(stage: Stage) -> None:
        socket = await Http2Socket.connect(stage.port)
        assert await socket.open() == "200"
        stage.gateway.stop()
        stage.gateway.stop()  # at once: the second signal of ruling 20
        told = await socket.rest()
        assert any(isinstance(one, GoAwayFrame) for one in told)
        frames = b"".join(one.data for one in told if isinstance(one, DataFrame))
        close = close_payload(1001, "the gateway is shutting down")
        assert frames == frame(CLOSE, close)
        assert [one.stream_id for one in told if "END_STREAM" in one.flags] == [1]
        stats = stage.gateway.realtime.stats
        assert stats.closes == {("gateway", "1001"): 1}
        socket.close()

    play(scene, echo, kind=RealtimeWorker)


def test_a_client_that_gives_no_window_holds_its_worker() -> None:
    sent = 0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal sent
        peer = await accept(connection, request)
        for _ in range(512):
            await peer.send(TEXT, b"*" * 65536)
            sent += 1
        await peer.close(1000)
        connection.close()

    async def scene(stage: Stage) -> None:
        socket = await Http2Socket.connect(stage.port)
        assert await socket.open() == "200"
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.2)
        assert sent < 256, "64 KiB each, into the kernel's buffers"
        reading = asyncio.create_task(socket.read_on())
        for _ in range(512):
            assert (await socket.peer.read()).payload == b"*" * 65536
        assert (await socket.peer.read()).code == 1000
        await socket.peer.close(1000)
        await reading
        socket.close()

    play(scene, script, kind=RealtimeWorker)
