"""HTTP/2 frames as they leave one of our sides (RFC 9113, section 4.1)."""

from __future__ import annotations

SentFrame = tuple[int, int, int, bytes]


def frames_of(data: bytes) -> list[SentFrame]:
    """Kind, flags, stream and payload of each."""
    frames = []
    while data:
        size = int.from_bytes(data[:3], "big")
        stream_id = int.from_bytes(data[5:9], "big")
        frames.append((data[3], data[4], stream_id, data[9 : 9 + size]))
        data = data[9 + size :]
    return frames
