"""What is counted of all HTTP/2 connections of a listener."""

from __future__ import annotations


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
