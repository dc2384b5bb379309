"""GET /openapi.json: what the gateway accepts, for programs to read."""

from __future__ import annotations

from functools import cache

from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.openapi import document
from smgproxy.api.replies import Reply, json_reply


@cache
def _reply() -> Reply:
    return json_reply(200, document())


async def show_description(request: ControlRequest) -> Reply:
    """The OpenAPI description; the same for as long as the process lives."""
    return _reply()
