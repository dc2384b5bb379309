"""The h2 library's side of a client connection: how it is set up, what is counted."""

from __future__ import annotations

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from smgproxy.wire.hpack import PlainEncoder, RememberingDecoder
from smgproxy.wire.http2 import PREFACE

# What a client may send of a body before somebody wants it, and beyond that once it
# flows. The connection's own window never stands in the way, so a body that waits is
# in nobody else's.
STREAM_WINDOW_BYTES = 65535
FLOWING_WINDOW_BYTES = 512 * 1024
CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024

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


class Http2Stats:
    """Counters of all HTTP/2 connections of a listener."""

    __slots__ = ("connections", "resets", "refused", "errors")

    def __init__(self) -> None:
        self.connections = 0  # ever opened
        self.resets = 0  # streams that clients took back
        self.refused = 0  # streams beyond the limit, or behind a GOAWAY
        self.errors: dict[int, int] = {}  # sent to clients, by RFC 9113 error code

    def count_error(self, code: int) -> None:
        """A RST_STREAM or GOAWAY with this code was sent."""
        self.errors[code] = self.errors.get(code, 0) + 1


def server_side(max_streams: int, max_header_bytes: int) -> H2Connection:
    """A connection that has read the preface and has its SETTINGS ready to send.

    The settings count from now on, not from when the client acknowledges them. Streams
    beyond ``max_streams`` are the caller's to refuse, one by one: h2 would end the
    connection.
    """
    h2 = H2Connection(_CONFIG)
    h2.encoder = PlainEncoder()  # type: ignore[assignment]
    h2.decoder = RememberingDecoder(max_header_bytes)
    settings = h2.local_settings
    settings[SettingCodes.MAX_CONCURRENT_STREAMS] = max_streams
    settings[SettingCodes.MAX_HEADER_LIST_SIZE] = max_header_bytes
    settings[SettingCodes.INITIAL_WINDOW_SIZE] = STREAM_WINDOW_BYTES
    settings[SettingCodes.ENABLE_CONNECT_PROTOCOL] = 1  # WebSockets: RFC 8441
    settings.acknowledge()  # or the one above would be told as it was before
    h2.initiate_connection()
    settings[SettingCodes.MAX_CONCURRENT_STREAMS] = 2**31 - 1
    while settings.acknowledge():
        pass
    h2.increment_flow_control_window(CONNECTION_WINDOW_BYTES - 65535)
    h2.receive_data(PREFACE)
    return h2
