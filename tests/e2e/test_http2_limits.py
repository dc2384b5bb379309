"""What HTTP/2 clients may not do to a gateway: the error they get, and its counter."""

from __future__ import annotations

import re
import socket

import pytest
from hyperframe.frame import Frame, GoAwayFrame, RstStreamFrame

from tests.downstream.h2_stage import (
    HELLO,
    REQUEST,
    block,
    data,
    headers,
    in_pieces,
    ping,
    raw,
    rst,
    settings,
    window,
    with_fields,
)
from tests.e2e.process import HOST, RunningGateway

CHAT = with_fields(path=b"/v1/chat/completions")
UPLOAD = headers(1, CHAT, end=False)
FLOW_CONTROL, REFUSED, CALM = 3, 7, 11
MAX_STREAMS = 256
# A field that is put into the table, and then named very often.
PACKED = block(((b"x-a", b"b" * 4000),)).replace(b"\x10", b"\x40", 1) + b"\xbe" * 200

ENDS = {
    "a header list that is too long": (
        CALM,
        in_pieces(1, b"\0" * 700_000, *range(16_000, 700_000, 16_000)),
    ),
    "a header list that is too long once unpacked": (CALM, raw(1, PACKED, 5, 1)),
    "CONTINUATION without an end": (CALM, in_pieces(1, block(REQUEST), *[0] * 50)),
    "DATA of nothing": (CALM, UPLOAD + data() * 1100),
    "PING": (CALM, ping() * 1100),
    "SETTINGS": (CALM, settings() * 1100),
    "streams taken back at once": (
        CALM,
        b"".join(headers(n, CHAT) + rst(n) for n in range(1, 6000, 2)),
    ),
    "a window of the connection beyond 2^31-1": (FLOW_CONTROL, window(0, 2**31 - 1)),
}
RESETS = {
    "a window of a stream beyond 2^31-1": (
        FLOW_CONTROL,
        1,
        UPLOAD + window(1, 2**31 - 1),
    ),
    "one stream too many": (
        REFUSED,
        2 * MAX_STREAMS + 1,
        b"".join(headers(n, CHAT, end=False) for n in range(1, 2 * MAX_STREAMS + 2, 2)),
    ),
}


def sent_to(sock: socket.socket, kind: type[Frame]) -> Frame:
    """The first frame of one type that the gateway sends."""
    unread = b""
    while True:
        while len(unread) >= 9:
            frame, size = Frame.parse_frame_header(memoryview(unread[:9]))
            if len(unread) < 9 + size:
                break
            if isinstance(frame, kind):
                frame.parse_body(memoryview(unread[9 : 9 + size]))
                return frame
            unread = unread[9 + size :]
        piece = sock.recv(65536)
        assert piece, "the gateway closed the connection"
        unread += piece


def count(gateway: RunningGateway, name: str) -> int:
    """A counter of its metrics page; 0 before it counted."""
    page = gateway.ask("GET", gateway.metrics_url).text
    found = re.search(rf"^{re.escape(name)} (\d+)", page, re.MULTILINE)
    return int(found[1]) if found else 0


def connect(gateway: RunningGateway) -> socket.socket:
    sock = socket.create_connection((HOST, gateway.port), timeout=10)
    sock.sendall(HELLO)
    return sock


@pytest.mark.parametrize("name", ENDS)
def test_what_goes_too_far_ends_its_connection_and_is_counted(
    gateway: RunningGateway, name: str
) -> None:
    code, said = ENDS[name]
    counter = f'smg_client_http2_errors_total{{code="{code}"}}'
    before = count(gateway, counter)
    with connect(gateway) as sock:
        sock.sendall(said)
        end = sent_to(sock, GoAwayFrame)
        assert isinstance(end, GoAwayFrame) and end.error_code == code
    assert count(gateway, counter) == before + 1


@pytest.mark.parametrize("name", RESETS)
def test_what_is_one_streams_fault_ends_that_stream_and_is_counted(
    gateway: RunningGateway, name: str
) -> None:
    code, stream_id, said = RESETS[name]
    counter = f'smg_client_http2_errors_total{{code="{code}"}}'
    before = count(gateway, counter)
    with connect(gateway) as sock:
        sock.sendall(said)
        reset = sent_to(sock, RstStreamFrame)
        assert isinstance(reset, RstStreamFrame)
        assert (reset.stream_id, reset.error_code) == (stream_id, code)
        assert count(gateway, counter) == before + 1
