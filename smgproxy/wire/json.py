"""JSON: ujson for what is the gateway's own, msgspec for what clients send."""

from __future__ import annotations

from typing import Any

import ujson


def dumps(value: Any) -> bytes:
    """The gateway's own JSON: compact, non-ASCII raw, slashes unescaped."""
    return ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False).encode()


def loads(data: bytes | str) -> Any:
    """Parse JSON that the gateway asked for itself (a worker's model list, ...).

    Raises ValueError when it is not JSON.
    """
    return ujson.loads(data)
