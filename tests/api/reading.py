"""A reader of bodies, and what it makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import ujson

from smgproxy.api.bodies import BodyReader, Call
from smgproxy.api.endpoints import INFERENCE
from smgproxy.core.errors import BadBody, InvalidField
from smgproxy.core.message import RequestHead

ENDPOINTS = {endpoint.name: endpoint for endpoint in INFERENCE}
MESSAGES = [{"role": "user", "content": "hi"}]


def read(
    body: bytes, name: str = "chat", aliases: dict[str, str] | None = None
) -> Call:
    """What a body asks for."""
    endpoint = ENDPOINTS[name]
    headers = [(b"content-type", b"application/json")]
    head = RequestHead("POST", endpoint.path, "", headers)
    return BodyReader(aliases or {}).read(head, endpoint, body)


def body_of(model: str = "m", **fields: Any) -> bytes:
    """A chat's body."""
    return ujson.dumps({"model": model, "messages": MESSAGES, **fields}).encode()


def refusal(body: bytes, name: str = "chat") -> str:
    """Why a body breaks a rule (a numeric 400)."""
    with pytest.raises(InvalidField) as caught:
        read(body, name)
    return caught.value.message


def fault(body: bytes, name: str = "chat") -> str:
    """Why a body cannot be parsed."""
    with pytest.raises(BadBody) as caught:
        read(body, name)
    return caught.value.message
