"""The serving side of one HTTP/2 connection, around the h2 library. No I/O.

h2 keeps the settings, the windows and the state of each stream, and has every frame
that is out of the ordinary. What nearly all traffic is made of does without its frame
and event objects, which would cost more than the rest of a request's way through here:
a request's head in one frame, a body's DATA, a response's frames.
"""

from __future__ import annotations

from typing import Protocol, cast

from h2.config import H2Configuration
from h2.connection import ConnectionInputs, H2Connection
from h2.errors import ErrorCodes
from h2.events import (
    DataReceived,
    Event,
    RemoteSettingsChanged,
    RequestReceived,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError
from h2.settings import SettingCodes
from h2.stream import H2Stream, StreamInputs, StreamState
from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from smgproxy.core.message import Headers
from smgproxy.wire.hpack import PlainEncoder, RememberingDecoder
from smgproxy.wire.http2 import (
    COMPRESSION_ERROR,
    CONNECTION_WINDOW_BYTES,
    DATA,
    END_HEADERS,
    END_STREAM,
    ENHANCE_YOUR_CALM,
    HEADER_BYTES,
    HEADERS,
    PREFACE,
    SETTINGS,
    STREAM_WINDOW_BYTES,
    Frame,
    Http2Violation,
)
from smgproxy.wire.http2_frames import encode_block, frame_header, unpadded

_CONFIG = H2Configuration(
    client_side=False,
    header_encoding=None,
    # wire/http2_head.py is stricter, and an error there ends one stream only.
    validate_inbound_headers=False,
    normalize_inbound_headers=False,
    # What leaves was checked when it came in.
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)
_OPEN, _ANSWERED = StreamState.OPEN, StreamState.HALF_CLOSED_LOCAL
_RECV_HEADERS, _RECV_END = StreamInputs.RECV_HEADERS, StreamInputs.RECV_END_STREAM
_SEND_END = StreamInputs.SEND_END_STREAM
# Streams that are over and that h2 has not been asked to let go of yet.
_KEPT_STREAMS = 16


class _Connection(H2Connection):
    """Remembers how the last streams ended, for frames that were on their way.

    65,536 of them, as h2 would, are 8 MB of each connection that stays.
    """

    MAX_CLOSED_STREAMS = 1000


class ServeEvents(Protocol):
    """Who is told what the client did."""

    def on_request(self, stream_id: int, fields: Headers, end: bool) -> None:
        """A stream was opened; ``end``: without a body."""

    def on_data(self, stream_id: int, data: bytes, size: int, end: bool) -> None:
        """Body bytes, maybe none; ``size``: what the windows lost by them."""

    def on_trailers(self, stream_id: int, fields: Headers) -> None:
        """A body ended with these."""

    def on_reset(self, stream_id: int, code: int, is_theirs: bool) -> None:
        """A stream was ended by the client, or here for what the client did."""

    def on_room(self, stream_id: int) -> None:
        """A stream's window has opened; 0: the connection's."""

    def on_settings(self) -> None:
        """Other settings apply, maybe to every window."""


class _FieldsAside:
    """A decoder of header blocks that shows h2 none of the fields it read.

    h2 would end the connection over a Content-Length or a ``:status`` that is an error
    of one request (RFC 9113 section 8.1.1), and give a block that cannot be decoded
    another code than section 4.3 does. ``fields`` is the last header list.
    """

    __slots__ = ("_decoder", "fields", "max_header_list_size", "max_allowed_table_size")

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.fields: Headers = []
        # For h2 to set; the decoder's own were set before.
        self.max_header_list_size = decoder.max_header_list_size
        self.max_allowed_table_size = decoder.max_allowed_table_size

    def decode(self, data: bytes, raw: bool = True) -> Headers:
        """Read a block; raises Http2Violation."""
        try:
            self.fields = cast(Headers, self._decoder.decode(data, raw=True))
        except OversizedHeaderListError:
            # It was told the size. The table is not what the client takes it for now.
            raise Http2Violation(ENHANCE_YOUR_CALM, "header list is too long") from None
        except (HPACKError, IndexError) as error:
            raise Http2Violation(COMPRESSION_ERROR, str(error)) from error
        return []


class ServingSide:
    """What a client did, and what it may be sent; frames in, frames out.

    ``receive`` takes whole frames that passed a FrameReader, which has taken padding
    and priority from HEADERS. It raises Http2Violation, or h2's ProtocolError when h2
    has queued the GOAWAY; the connection can only be ended after either.
    """

    __slots__ = (
        "_on",
        "_h2",
        "_streams",
        "_encoder",
        "_fields",
        "_queued",
        "_has_h2_queued",
        "_prune_at",
    )

    def __init__(
        self, on: ServeEvents, max_streams: int, max_header_bytes: int
    ) -> None:
        """SETTINGS are ready to be sent, and the preface was received.

        Streams beyond ``max_streams`` are the caller's to refuse, one by one: h2 would
        end the connection.
        """
        self._on = on
        self._encoder = PlainEncoder()
        self._fields = _FieldsAside(RememberingDecoder(max_header_bytes))
        self._h2 = self._set_up(max_streams, max_header_bytes)
        self._streams = self._h2.streams
        self._queued = [self._h2.data_to_send()]
        self._has_h2_queued = False
        self._prune_at = _KEPT_STREAMS

    def _set_up(self, max_streams: int, max_header_bytes: int) -> H2Connection:
        """The settings count from now on, not from when the client acknowledges."""
        h2 = _Connection(_CONFIG)
        h2.encoder = self._encoder  # type: ignore[assignment]
        h2.decoder = cast(Decoder, self._fields)
        settings = h2.local_settings
        settings[SettingCodes.MAX_CONCURRENT_STREAMS] = max_streams
        settings[SettingCodes.MAX_HEADER_LIST_SIZE] = max_header_bytes
        settings[SettingCodes.INITIAL_WINDOW_SIZE] = STREAM_WINDOW_BYTES
        settings[SettingCodes.ENABLE_CONNECT_PROTOCOL] = 1  # WebSockets: RFC 8441
        while settings.acknowledge():
            pass
        h2.initiate_connection()  # the frame says what counts already
        settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2**31 - 1
        settings.acknowledge()
        h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - 65535)
        h2.receive_data(PREFACE)
        # By the first HEADERS it would learn that it serves, but does not see them.
        h2.state_machine.process_input(ConnectionInputs.RECV_HEADERS)
        return h2

    # -- receiving -------------------------------------------------------------------

    @property
    def last_stream_id(self) -> int:
        """The highest stream that the client has opened."""
        return self._h2.highest_inbound_stream_id

    def receive(self, frame: Frame) -> None:
        """Act on one frame, in order."""
        kind, stream_id = frame.kind, frame.stream_id
        if kind == DATA:
            stream = self._streams.get(stream_id)
            if stream is not None:
                state = stream.state_machine.state
                if state is _OPEN or state is _ANSWERED:
                    self._on_data(stream, frame)
                    return
        elif kind == HEADERS and frame.flags & END_HEADERS:
            if stream_id & 1 and stream_id > self._h2.highest_inbound_stream_id:
                self._on_request(stream_id, frame)
                return
        elif kind == SETTINGS:
            self._prune()  # streams that are over have no window to overflow
        self._has_h2_queued = True
        for event in self._h2.receive_data(frame.data):
            self._tell(event)

    def _on_request(self, stream_id: int, frame: Frame) -> None:
        self._fields.decode(frame.data[HEADER_BYTES:])
        h2, streams = self._h2, self._streams
        if len(streams) >= self._prune_at:
            self._prune()
        streams[stream_id] = stream = H2Stream(
            stream_id,
            _CONFIG,
            STREAM_WINDOW_BYTES,
            h2.remote_settings.initial_window_size,
        )
        h2.highest_inbound_stream_id = stream_id
        machine = stream.state_machine
        machine.process_input(_RECV_HEADERS)
        end = bool(frame.flags & END_STREAM)
        if end:
            machine.process_input(_RECV_END)
        self._on.on_request(stream_id, self._fields.fields, end)

    def _prune(self) -> None:
        """Have h2 let go of streams that are over: it does so to count the others."""
        self._prune_at = 2 * self._h2.open_inbound_streams + _KEPT_STREAMS

    def _on_data(self, stream: H2Stream, frame: Frame) -> None:
        size = len(frame.data) - HEADER_BYTES
        end = bool(frame.flags & END_STREAM)
        data = unpadded(frame)
        try:
            self._h2._inbound_flow_control_window_manager.window_consumed(size)
            stream.receive_data(data, end, size)
        except ProtocolError as error:
            code = int(error.error_code)
            raise Http2Violation(code, "more than the windows allow") from error
        self._on.on_data(stream.stream_id, data, size, end)

    def _tell(self, event: Event) -> None:
        """What h2 made of a frame."""
        on = self._on
        if isinstance(event, WindowUpdated):
            on.on_room(event.stream_id or 0)
        elif isinstance(event, RequestReceived):
            end = event.stream_ended is not None
            on.on_request(event.stream_id, self._fields.fields, end)
        elif isinstance(event, DataReceived):
            end = event.stream_ended is not None
            on.on_data(event.stream_id, event.data, event.flow_controlled_length, end)
        elif isinstance(event, StreamReset):
            code = int(event.error_code or 0)
            on.on_reset(event.stream_id, code, event.remote_reset)
        elif isinstance(event, TrailersReceived):
            on.on_trailers(event.stream_id, self._fields.fields)
        elif isinstance(event, RemoteSettingsChanged):
            on.on_settings()

    def close(self) -> None:
        """Let go of the one who is told; nothing will be received any more."""
        self._on = None  # type: ignore[assignment]

    # -- sending ---------------------------------------------------------------------

    @property
    def max_outbound_frame_size(self) -> int:
        """The longest payload that the client takes."""
        return self._h2.max_outbound_frame_size

    def local_flow_control_window(self, stream_id: int) -> int:
        """Body bytes that may be sent now; maybe less than none."""
        of_stream = self._streams[stream_id].outbound_flow_control_window
        return min(of_stream, self._h2.outbound_flow_control_window)

    def send_headers(
        self, stream_id: int, headers: Headers, *, end_stream: bool = False
    ) -> None:
        """Queue a response's head, interim or final."""
        self._take_from_h2()
        if end_stream:
            self._streams[stream_id].state_machine.process_input(_SEND_END)
        block = self._encoder.encode(headers)
        flags = END_STREAM if end_stream else 0
        most = self._h2.max_outbound_frame_size
        self._queued.append(encode_block(stream_id, block, flags, most))

    def send_data(
        self, stream_id: int, data: bytes | memoryview, end_stream: bool = False
    ) -> None:
        """Queue one frame of a body, within the window and the longest frame."""
        self._take_from_h2()
        size = len(data)
        stream = self._streams[stream_id]
        stream.outbound_flow_control_window -= size
        self._h2.outbound_flow_control_window -= size
        if end_stream:
            stream.state_machine.process_input(_SEND_END)
        self._queued.append(frame_header(DATA, int(end_stream), stream_id, size))
        # A view of bytes is as good as the bytes to a join.
        self._queued.append(cast(bytes, data))

    def reset_stream(self, stream_id: int, code: int) -> None:
        """End a stream from this side."""
        self._h2.reset_stream(stream_id, ErrorCodes(code))
        self._has_h2_queued = True

    def increment_flow_control_window(
        self, increment: int, stream_id: int | None = None
    ) -> None:
        """Let the client send so much more of a stream, or of all together."""
        self._h2.increment_flow_control_window(increment, stream_id)
        self._has_h2_queued = True

    def data_to_send(self) -> bytes:
        """All that is queued; gone from here."""
        self._take_from_h2()
        queued = self._queued
        if not queued:
            return b""
        self._queued = []
        return b"".join(queued)

    def _take_from_h2(self) -> None:
        """Before anything is queued behind it: the order of frames is their meaning.

        A client may count on new settings only behind their ACK (section 6.5.3).
        """
        if self._has_h2_queued:
            self._has_h2_queued = False
            self._queued.append(self._h2.data_to_send())
