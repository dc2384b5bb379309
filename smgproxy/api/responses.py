"""POST /v1/responses; provider profiles do not apply here (seed: Profile Selection)."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from smgproxy.api.fields import Body, Object
from smgproxy.api.schema import Schema
from smgproxy.api.strict import PREFIX
from smgproxy.core.errors import BadBody


class InputItem(msgspec.Struct, gc=False):
    """One item of an array input; what it holds depends on its type.

    Without one it is a message, or the id of an earlier item.
    """

    type: str | None = None
    role: str | None = None
    content: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET

    @property
    def is_one(self) -> bool:
        """Whether it says what it is."""
        if self.type is not None or self.id is not UNSET:
            return True
        return self.role is not None and self.content is not UNSET


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

    def check(self) -> None:
        """Hold the items of an array input to their form. Raises BadBody."""
        if isinstance(self.input, str):
            return
        for place, item in enumerate(self.input):
            if not item.is_one:
                raise BadBody(
                    f"{PREFIX}Expected `type`, or `role` and `content` "
                    f"- at `$.input[{place}]`"
                )


SCHEMA = Schema(ResponsesRequest)
