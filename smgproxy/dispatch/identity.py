"""Request ids: the client's when it sent a usable one, else one of ours."""

from __future__ import annotations

import base64
import os
import re

from smgproxy.api.endpoints import DEFAULT_ID_PREFIX, ID_PREFIXES
from smgproxy.core.message import RequestHead

DEFAULT_ID_HEADERS = (
    b"x-request-id",
    b"x-correlation-id",
    b"x-trace-id",
    b"request-id",
)
# 1 to 128 visible ASCII characters; anything else is replaced.
_USABLE = re.compile(rb"[!-~]{1,128}")
_ID_BYTES = 18  # 24 characters of base64
_ALPHANUMERIC = bytes.maketrans(b"+/", b"Xx")
_POOL_IDS = 256


def is_usable(value: bytes) -> bool:
    """Whether a client's value may serve as a request id."""
    return _USABLE.fullmatch(value) is not None


class RequestIds:
    """Chooses the id of each request (admin: request ids).

    The first of the configured headers that is present decides: a usable value is
    taken, a bad one is replaced, and later headers are not tried.
    """

    __slots__ = ("_names", "_random", "_at")

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        given = tuple(name.lower().encode() for name in names)
        self._names = given or DEFAULT_ID_HEADERS
        self._random = b""
        self._at = 0

    def choose(self, head: RequestHead) -> bytes:
        """The id for a request."""
        first = head.first
        for name in self._names:
            value = first.get(name)
            if value is not None:
                if is_usable(value):
                    return value
                break
        return ID_PREFIXES.get(head.path, DEFAULT_ID_PREFIX) + self._fresh()

    def _fresh(self) -> bytes:
        """24 random letters and digits; the kernel is asked once for many."""
        at = self._at
        if at >= len(self._random):
            self._random = os.urandom(_ID_BYTES * _POOL_IDS)
            at = 0
        self._at = at + _ID_BYTES
        raw = self._random[at : at + _ID_BYTES]
        return base64.b64encode(raw).translate(_ALPHANUMERIC)
