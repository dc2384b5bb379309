"""What policies read of a request; small, and lazy where reading costs."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

from smgproxy.fleet.registry import UNKNOWN_MODEL
from smgproxy.fleet.worker import Worker
from smgproxy.routing.hints import token_hint

if TYPE_CHECKING:
    from smgproxy.routing.pins import Pin

NO_HEADERS: Mapping[bytes, bytes] = {}
TOKEN_BYTES = 4


class Prompt(Protocol):
    """A body, as far as policies may ask about it; each answer may cost."""

    def text(self) -> str:
        """Its text."""

    def token_ids(self) -> Sequence[int] | None:
        """Its token ids, where it has them instead."""

    def rid(self) -> str | None:
        """The request's own id."""

    def cache_fields(self) -> Sequence[str | None]:
        """What sets its cache entries apart from others'."""


class RoutingRequest:
    """One request on its way to a worker, over all its attempts.

    ``text`` and ``partition`` are made when a policy first asks, never twice, and never
    under a policy that does not ask. ``tokens`` are the prompt's ids as little-endian
    32-bit numbers, empty when unknown; a worker's backlog is charged by them under
    every policy. ``name`` is the model as the client has it; the router sets ``model``
    to what it stands for, and ``worker`` to who was picked. ``pin`` is what a policy
    remembers of its routing key. ``excluded`` holds workers that may not be picked
    again.
    """

    __slots__ = (
        *("name", "model", "headers", "now", "_rid", "_partition", "excluded"),
        *("worker", "pin", "tokens", "_prompt", "_text"),
    )

    def __init__(
        self,
        model: str | None,
        headers: Mapping[bytes, bytes] = NO_HEADERS,
        now: float = 0.0,
        prompt: Prompt | None = None,
    ) -> None:
        self.name = self.model = UNKNOWN_MODEL if model is None else model
        self.headers = headers
        self.now = now
        self.excluded: frozenset[Worker] = frozenset()
        self.worker: Worker | None = None
        self.pin: Pin | None = None
        ids: Sequence[int] | None = token_hint(headers)
        if not ids and prompt is not None:
            ids = prompt.token_ids()
        self.tokens = pack_tokens(ids) if ids else b""
        self._prompt = prompt
        self._rid: str | None = None
        self._partition: str | None = None
        self._text: str | None = None

    @property
    def rid(self) -> str | None:
        """The request's own id in its body."""
        if self._rid is None and self._prompt is not None:
            self._rid = self._prompt.rid()
        return self._rid

    @property
    def partition(self) -> str:
        """Which prompts of the engine's cache it may share."""
        partition = self._partition
        if partition is None:
            prompt = self._prompt
            fields = () if prompt is None else prompt.cache_fields()
            partition = partition_of(*fields) if any(fields) else ""
            self._partition = partition
        return partition

    @property
    def text(self) -> str:
        """The prompt's text, empty when there is none to read."""
        text = self._text
        if text is None:
            prompt = self._prompt
            text = self._text = "" if prompt is None else prompt.text()
        return text


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
