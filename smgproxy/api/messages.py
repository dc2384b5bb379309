"""POST /v1/messages and /v1/messages/count_tokens, in Anthropic's dialect."""

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


class CountTokensRequest(Body, kw_only=True):
    """A conversation whose tokens are to be counted; no engine's cache will hold it."""

    model: str
    messages: Annotated[list[Message], Meta(min_length=1)]
    system: str | Parts | None = None
    tools: list[Object] | None = None

    def least_inner_keys(self) -> int:
        """Two for each message."""
        return 2 * len(self.messages)


class MessagesRequest(CountTokensRequest, kw_only=True):
    """A turn to answer as far as the gateway looks at it."""

    max_tokens: AtLeastOne
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop_sequences: list[str] | None = None
    rid: Raw | UnsetType = UNSET


SCHEMA = Schema(MessagesRequest)
COUNT_TOKENS = Schema(CountTokensRequest)
