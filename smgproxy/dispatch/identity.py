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
_ID_BYTES = 18
_ID_LETTERS = 24  # base64 of as many bytes
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

    __slots__ = ("_names", "_set", "_fresh")

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        given = tuple(name.lower().encode() for name in names)
        self._names = given or DEFAULT_ID_HEADERS
        self._set = frozenset(self._names)
        self._fresh: list[bytes] = []

    def choose(self, head: RequestHead) -> bytes:
        """The id for a request."""
        first = head.first
        if not self._set.isdisjoint(first):
            value = next(first[name] for name in self._names if name in first)
            if is_usable(value):
                return value
        if not self._fresh:
            self._fresh = _fresh_ids()
        return ID_PREFIXES.get(head.path, DEFAULT_ID_PREFIX) + self._fresh.pop()


def _fresh_ids() -> list[bytes]:
    """Many times 24 random letters and digits; the kernel is asked once for them."""
    text = base64.b64encode(os.urandom(_ID_BYTES * _POOL_IDS))
    text = text.translate(_ALPHANUMERIC)
    return [text[at : at + _ID_LETTERS] for at in range(0, len(text), _ID_LETTERS)]
