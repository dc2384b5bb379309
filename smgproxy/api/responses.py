"""POST /v1/responses; provider profiles do not apply here (seed: Profile Selection)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from smgproxy.api.fields import Body, Object
from smgproxy.api.schema import Schema


class InputItem(msgspec.Struct, gc=False):
    """One item of an array input; what it holds depends on its type."""

    type: str


class ResponsesRequest(Body, kw_only=True):
    """A response to create as far as the gateway looks at it."""

    model: str
    input: Annotated[str, Meta(min_length=1)] | list[InputItem]
    instructions: str | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    tools: list[Object] | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None


SCHEMA = Schema(ResponsesRequest)
