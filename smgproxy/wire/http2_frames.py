"""HTTP/2 frames made, and the payloads of frames that came looked at (RFC 9113 4.1)."""

from __future__ import annotations

from smgproxy.wire.http2 import (
    CONTINUATION,
    END_HEADERS,
    FRAME_SIZE_ERROR,
    HEADER_BYTES,
    HEADERS,
    PADDED,
    PROTOCOL_ERROR,
    Frame,
    Http2Violation,
)


def frame_header(kind: int, flags: int, stream_id: int, size: int) -> bytes:
    """The nine bytes before a payload of ``size`` bytes."""
    return (size << 48 | kind << 40 | flags << 32 | stream_id).to_bytes(9, "big")


def encode_frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    """A whole frame."""
    return frame_header(kind, flags, stream_id, len(payload)) + payload


def encode_block(stream_id: int, block: bytes, flags: int, most: int) -> bytes:
    """A header block in as many frames of ``most`` bytes as it takes (section 4.3)."""
    size = len(block)
    if size <= most:
        return frame_header(HEADERS, flags | END_HEADERS, stream_id, size) + block
    frames = [encode_frame(HEADERS, flags, stream_id, block[:most])]
    for at in range(most, size, most):
        flags = END_HEADERS if at + most >= size else 0
        piece = block[at : at + most]
        frames.append(encode_frame(CONTINUATION, flags, stream_id, piece))
    return b"".join(frames)


def encode_setting(name: int, value: int) -> bytes:
    """One entry of SETTINGS."""
    return name.to_bytes(2, "big") + value.to_bytes(4, "big")


def payload_of(frame: Frame) -> bytes:
    """What is behind its header."""
    return frame.data[HEADER_BYTES:]


def unpadded(frame: Frame) -> bytes:
    """The payload without its padding. Raises Http2Violation."""
    payload = frame.data[HEADER_BYTES:]
    if not frame.flags & PADDED:
        return payload
    size = len(payload)
    if not size:
        raise Http2Violation(FRAME_SIZE_ERROR, "padding of no length")
    if payload[0] >= size:
        raise Http2Violation(PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : size - payload[0]]
