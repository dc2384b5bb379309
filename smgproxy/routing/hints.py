"""What a client's headers say about where its request should run.

A hint only ever moves a request to another worker. One that is malformed or over its
limit is as if it were absent, and never an error (seed: Routing Hint Headers).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TOKENS_HEADER = b"x-smg-routing-tokens"
KEY_HEADER = b"x-smg-routing-key"
TARGET_HEADER = b"x-smg-target-worker"
# Headers that tell clients apart. Never Authorization: hashing an API key that many
# clients share would send all of them to one worker.
IMPLICIT_KEY_HEADERS = (b"x-forwarded-for", b"cookie")

MAX_TOKENS = 512
MAX_TOKENS_BYTES = 4096
MAX_TOKEN = 0xFFFFFFFF
MAX_KEY_BYTES = 128

# Leading zeros pass; blanks, signs and empty items do not.
_is_index = re.compile(rb"\+?[0-9]{1,9}").fullmatch
_lineage = re.compile(r"(?:_t[0-9]+)?(?:_r[0-9]+)?\Z")
_is_token_list = re.compile(rb"[0-9]+(?:,[0-9]+)*").fullmatch


def token_hint(first: Mapping[bytes, bytes]) -> tuple[int, ...] | None:
    """The prompt's leading token ids, when the client sent them and they are valid.

    ``first`` maps each header's name to its first value (``RequestHead.first``).
    """
    value = first.get(TOKENS_HEADER)
    if value is None:
        return None
    # The limits come first: what is too long costs nothing more.
    if len(value) > MAX_TOKENS_BYTES or value.count(b",") >= MAX_TOKENS:
        return None
    if _is_token_list(value) is None:
        return None
    tokens = tuple(map(int, value.split(b",")))
    return tokens if max(tokens) <= MAX_TOKEN else None


def routing_key(
    first: Mapping[bytes, bytes], names: tuple[bytes, ...] = (KEY_HEADER,)
) -> str | None:
    """The first valid key among the headers ``names``, which are in lower case.

    A key is UTF-8, not empty and at most 128 bytes; any other is passed over.
    """
    for name in names:
        value = first.get(name)
        if value and len(value) <= MAX_KEY_BYTES:
            try:
                return value.decode()
            except UnicodeDecodeError:
                continue
    return None


def valid_rid(rid: str | None) -> str | None:
    """A body's ``rid`` as a routing key: its lineage, or None when it cannot be one."""
    if not rid:
        return None
    key = lineage(rid)
    is_fit = len(key.encode("utf-8", "surrogatepass")) <= MAX_KEY_BYTES
    return key if is_fit else None


def lineage(key: str) -> str:
    """A key without one trailing ``_r<digits>``, then without one ``_t<digits>``.

    Turns and retries of a conversation so get one key. When nothing would be left, the
    key stays whole.
    """
    found = _lineage.search(key)
    return (key[: found.start()] if found else key) or key


def target_index(first: Mapping[bytes, bytes]) -> int | None:
    """The index in X-SMG-Target-Worker: None when absent or empty, -1 when bad."""
    value = first.get(TARGET_HEADER)
    if not value:
        return None
    value = value.strip()
    return int(value) if _is_index(value) else -1


def implicit_key(first: Mapping[bytes, bytes]) -> bytes | None:
    """The whole value of the first header that tells this client from others."""
    for name in IMPLICIT_KEY_HEADERS:
        value = first.get(name)
        if value:
            return value
    return None
