"""The h2 library's side of a client connection: how it is set up, what is counted."""

from __future__ import annotations

from typing import cast

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes
from hpack import Decoder
from hpack.exceptions import HPACKError, OversizedHeaderListError

from smgproxy.core.message import Headers
from smgproxy.wire.hpack import PlainEncoder, RememberingDecoder
from smgproxy.wire.http2 import (
    COMPRESSION_ERROR,
    CONNECTION_WINDOW_BYTES,
    ENHANCE_YOUR_CALM,
    PREFACE,
    STREAM_WINDOW_BYTES,
    Http2Violation,
)

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


class FieldsAside:
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
        except HPACKError as error:
            raise Http2Violation(COMPRESSION_ERROR, str(error)) from error
        return []


def fields_of(h2: H2Connection) -> Headers:
    """The header list that the last HEADERS event of ``h2`` stands for."""
    return cast(FieldsAside, h2.decoder).fields


def server_side(max_streams: int, max_header_bytes: int) -> H2Connection:
    """A connection that has read the preface and has its SETTINGS ready to send.

    The settings count from now on, not from when the client acknowledges them. Streams
    beyond ``max_streams`` are the caller's to refuse, one by one: h2 would end the
    connection.
    """
    h2 = H2Connection(_CONFIG)
    h2.encoder = PlainEncoder()  # type: ignore[assignment]
    h2.decoder = cast(Decoder, FieldsAside(RememberingDecoder(max_header_bytes)))
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
    return h2
