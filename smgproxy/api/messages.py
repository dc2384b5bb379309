"""POST /v1/messages, in Anthropic's dialect."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from smgproxy.api.conversation import Parts
from smgproxy.api.fields import AtLeastOne, Body, Object
from smgproxy.api.schema import Schema


class Message(msgspec.Struct, gc=False):
    """One turn; its content blocks are the worker's to judge."""

    role: Literal["user", "assistant", "system"]
    content: str | Parts


class MessagesRequest(Body, kw_only=True):
    """A turn to answer as far as the gateway looks at it."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: AtLeastOne
    system: str | Parts | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    tools: list[Object] | None = None
    rid: Raw | UnsetType = UNSET

    def least_inner_keys(self) -> int:
        """Two for each message."""
        return 2 * len(self.messages)


SCHEMA = Schema(MessagesRequest)
