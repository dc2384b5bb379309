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


Passed = Raw | UnsetType


class ResponsesRequest(Body, kw_only=True, forbid_unknown_fields=True):
    """A response to create as far as the gateway looks at it.

    Here, and on no other route, a field that nobody knows is refused, as the original
    does: it is the one API whose fields are all written down.
    """

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

    # The rest of the API.
    context_management: Passed = UNSET
    conversation: Passed = UNSET
    include: Passed = UNSET
    max_tool_calls: Passed = UNSET
    metadata: Passed = UNSET
    parallel_tool_calls: Passed = UNSET
    prompt: Passed = UNSET
    prompt_cache_key: Passed = UNSET
    prompt_cache_retention: Passed = UNSET
    reasoning: Passed = UNSET
    safety_identifier: Passed = UNSET
    service_tier: Passed = UNSET
    stream_options: Passed = UNSET
    text: Passed = UNSET
    tool_choice: Passed = UNSET
    top_logprobs: Passed = UNSET
    truncation: Passed = UNSET
    user: Passed = UNSET

    # What engines add to it.
    chat_template: Passed = UNSET
    chat_template_kwargs: Passed = UNSET
    enable_response_messages: Passed = UNSET
    frequency_penalty: Passed = UNSET
    ignore_eos: Passed = UNSET
    include_stop_str_in_output: Passed = UNSET
    kv_transfer_params: Passed = UNSET
    logit_bias: Passed = UNSET
    lora_path: Passed = UNSET
    media_io_kwargs: Passed = UNSET
    min_p: Passed = UNSET
    mm_processor_kwargs: Passed = UNSET
    presence_penalty: Passed = UNSET
    previous_input_messages: Passed = UNSET
    priority: Passed = UNSET
    repetition_penalty: Passed = UNSET
    request_id: Passed = UNSET
    seed: Passed = UNSET
    skip_special_tokens: Passed = UNSET
    stop: Passed = UNSET
    structured_outputs: Passed = UNSET
    top_k: Passed = UNSET
    vllm_xargs: Passed = UNSET

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
