"""POST /v1/messages, in Anthropic's dialect."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw

from smgproxy.api.fields import AtLeastOne, Body
from smgproxy.api.schema import Schema


class Message(msgspec.Struct):
    """One turn; its content blocks are the worker's to judge."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Raw]


class MessagesRequest(Body, kw_only=True):
    """A turn to answer as far as the gateway looks at it."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: AtLeastOne
    system: str | list[Raw] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[Raw] | None = None
    rid: Any = None


SCHEMA = Schema(MessagesRequest, {"messages": ("role", "content")})
