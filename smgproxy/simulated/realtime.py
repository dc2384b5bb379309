"""A simulated realtime session: it says that it is there, and echoes what it is told.

No speech is understood here. What a client sends, text or audio, comes back as it is,
which is what one needs to try a way through a gateway.
"""

from __future__ import annotations

import asyncio
from uuid import uuid4

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import RemoteProtocolError

from smgproxy.simulated.replies import to_json
from smgproxy.simulated.worker import Worker

PATH = b"/v1/realtime"
SLOW_READER_SECS = 300.0


class EchoSession(asyncio.Protocol):
    """One client that speaks WebSocket."""

    __slots__ = ("_worker", "_transport", "_socket", "_is_full", "_moved_at")

    def __init__(self, worker: Worker, transport: asyncio.Transport) -> None:
        self._worker = worker
        self._transport = transport
        self._socket = WSConnection(ConnectionType.SERVER)
        self._is_full = False
        self._moved_at = worker.clock.time()

    def begin(
        self, headers: list[tuple[bytes, bytes]], target: bytes, early: bytes
    ) -> None:
        """Answer the handshake, and whatever came with it."""
        self._worker.connections.add(self)
        try:
            self._socket.initiate_upgrade_connection(headers, target)
        except RemoteProtocolError as error:
            refusal = error.event_hint or RejectConnection(status_code=400)
            self._transport.write(self._socket.send(refusal))
            self._transport.close()
            return
        self._answer()
        if early:
            self.data_received(early)

    # What the event loop says.

    def data_received(self, data: bytes) -> None:
        self._moved_at = self._worker.clock.time()
        if self._transport.is_closing():
            return
        try:
            self._socket.receive_data(data)
            self._answer()
        except RemoteProtocolError as error:
            if error.event_hint is not None:
                self._transport.write(self._socket.send(error.event_hint))
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._worker.connections.discard(self)

    def pause_writing(self) -> None:
        self._is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._is_full = False
        self._transport.resume_reading()

    # The sweep of the worker asks this now and then.

    def close_if_stale(self, now: float) -> None:
        """Let go of a client that does not read; one that is silent may be."""
        if self._is_full or self._transport.is_closing():
            if now - self._moved_at > SLOW_READER_SECS:
                self._transport.abort()

    def cut(self) -> None:
        """Close at once."""
        self._transport.abort()

    def _answer(self) -> None:
        said = b"".join(self._reply(event) for event in self._socket.events())
        if said:
            self._transport.write(said)

    def _reply(self, event: Event) -> bytes:
        send = self._socket.send
        if isinstance(event, Request):
            chosen = event.subprotocols[0] if event.subprotocols else None
            return send(AcceptConnection(subprotocol=chosen)) + self._hello()
        if isinstance(event, (TextMessage, BytesMessage)):
            return send(_copy(event))
        if isinstance(event, (Ping, CloseConnection)):
            said = send(event.response())
            if isinstance(event, CloseConnection):
                self._transport.write(said)
                self._transport.close()
                return b""
            return said
        return b""

    def _hello(self) -> bytes:
        session = {"id": f"sess_{uuid4().hex[:24]}", "model": self._worker.model}
        event = {"type": "session.created", "session": session}
        return self._socket.send(TextMessage(data=to_json(event).decode()))


def _copy(event: TextMessage | BytesMessage) -> TextMessage | BytesMessage:
    """A message, or a piece of one, as it is to be sent back."""
    if isinstance(event, TextMessage):
        return TextMessage(event.data, event.frame_finished, event.message_finished)
    return BytesMessage(bytes(event.data), event.frame_finished, event.message_finished)
