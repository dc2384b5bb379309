"""What policies read of a request; small, and lazy where reading costs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING

from smgproxy.fleet.registry import UNKNOWN_MODEL
from smgproxy.fleet.worker import Worker
from smgproxy.routing.hints import token_hint

if TYPE_CHECKING:
    from smgproxy.routing.pins import Pin

NO_HEADERS: Mapping[bytes, bytes] = {}
TOKEN_BYTES = 4


class RoutingRequest:
    """One request on its way to a worker, over all its attempts.

    ``text`` and ``tokens`` are made when a policy first asks, never twice, and never
    under a policy that asks for neither. ``name`` is the model as the client has it;
    the router sets ``model`` to what it stands for, and ``worker`` to who was picked.
    ``pin`` is what a policy remembers of its routing key. ``excluded`` holds workers
    that may not be picked again.
    """

    __slots__ = (
        *("name", "model", "headers", "now", "rid", "partition", "excluded"),
        *("worker", "pin", "_read_text", "_text", "_ids", "_tokens"),
    )

    def __init__(
        self,
        model: str | None,
        headers: Mapping[bytes, bytes] = NO_HEADERS,
        now: float = 0.0,
        *,
        read_text: Callable[[], str] | None = None,
        input_ids: Sequence[int] | None = None,
        rid: str | None = None,
        partition: str = "",
    ) -> None:
        self.name = self.model = UNKNOWN_MODEL if model is None else model
        self.headers = headers
        self.now = now
        self.rid = rid
        self.partition = partition
        self.excluded: frozenset[Worker] = frozenset()
        self.worker: Worker | None = None
        self.pin: Pin | None = None
        self._read_text = read_text
        self._text: str | None = None
        self._ids = input_ids
        self._tokens: bytes | None = None

    @property
    def text(self) -> str:
        """The prompt's text, empty when there is none to read."""
        text = self._text
        if text is None:
            read = self._read_text
            text = self._text = "" if read is None else read()
        return text

    @property
    def tokens(self) -> bytes:
        """The prompt's token ids as little-endian 32-bit numbers; empty when unknown.

        A valid hint header wins over the body's ids. Ids that do not fit are no ids.
        """
        tokens = self._tokens
        if tokens is None:
            ids = token_hint(self.headers) or self._ids
            tokens = self._tokens = pack_tokens(ids) if ids else b""
        return tokens


def pack_tokens(ids: Sequence[int]) -> bytes:
    """Token ids as bytes, four each: quick to compare, to cut and to hash."""
    try:
        return struct.pack(f"<{len(ids)}I", *ids)
    except struct.error:
        return b""


def partition_of(*fields: str | None) -> str:
    """The partition that ``cache_salt``, ``extra_key`` and ``lora_path`` make.

    Empty when all are unset or empty. Prompts of different partitions share nothing
    in an engine's cache, so they must not match each other here either.
    """
    if not any(fields):
        return ""
    # Length before each field: ("ab", "") and ("a", "b") are different partitions.
    parts = [f"{len(field or '')}:{field or ''}" for field in fields]
    joined = "".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(joined, digest_size=8).hexdigest()
