"""POST /v1/chat/completions: its fields and the rules across them (seed: the table)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from smgproxy.api.conversation import AnyMessage, Assistant
from smgproxy.api.fields import (
    AtLeastOne,
    ChatN,
    NonEmpty,
    Sampling,
    TopLogprobs,
    check_constraints,
)
from smgproxy.api.schema import Schema
from smgproxy.core.errors import BadBody, InvalidField


class Function(msgspec.Struct, gc=False):
    """The function of a tool; its parameters go to the worker unread."""

    name: str


class Tool(msgspec.Struct, gc=False):
    """One entry of ``tools``."""

    type: str
    function: Function


class NamedTool(msgspec.Struct, tag_field="type", tag="function", gc=False):
    """``tool_choice`` that names the function to call."""

    function: Function


class AllowedTool(msgspec.Struct, gc=False):
    """One entry of an ``allowed_tools`` choice."""

    type: str
    name: str


class AllowedTools(msgspec.Struct, tag_field="type", tag="allowed_tools", gc=False):
    """``tool_choice`` that narrows the tools down."""

    mode: Literal["auto", "required"]
    tools: list[AllowedTool]


ToolChoice = Literal["none", "auto", "required"] | NamedTool | AllowedTools


class JsonSchema(msgspec.Struct, gc=False):
    """The schema that an answer must follow; it must be an object."""

    name: NonEmpty
    schema: Raw


class TextFormat(msgspec.Struct, tag_field="type", tag="text", gc=False):
    """Any text."""


class JsonObjectFormat(msgspec.Struct, tag_field="type", tag="json_object", gc=False):
    """Some JSON object."""


class JsonSchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", gc=False):
    """JSON that follows a schema."""

    json_schema: JsonSchema


ResponseFormat = TextFormat | JsonObjectFormat | JsonSchemaFormat


class Thinking(msgspec.Struct, gc=False):
    """Typed thinking control; ``effort`` takes precedence over reasoning_effort."""

    type: Literal["enabled", "disabled", "adaptive"] | None = None
    effort: str | None = None
    keep: str | None = None
    clear_thinking: bool | None = None


class TemplateVariables(msgspec.Struct, gc=False):
    """Those of the variables of a chat's template that profiles look at."""

    thinking: Raw | UnsetType = UNSET
    enable_thinking: Raw | UnsetType = UNSET
    clear_thinking: Raw | UnsetType = UNSET
    reasoning_effort: Raw | UnsetType = UNSET


class ChatRequest(Sampling, kw_only=True):
    """A chat completion as far as the gateway looks at it."""

    messages: Annotated[list[AnyMessage], Meta(min_length=1)]
    max_completion_tokens: AtLeastOne | None = None
    n: ChatN | None = None
    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    user: str | None = None
    response_format: ResponseFormat | None = None
    reasoning_effort: str | int | float | None = None
    thinking: Thinking | None = None
    continue_final_message: bool | None = None
    separate_reasoning: bool | None = None
    stream_reasoning: bool | None = None
    chat_template_kwargs: TemplateVariables | None = None
    tool_stream: Raw | UnsetType = UNSET

    def check(self) -> None:
        """Hold every rule but those of ``tool_choice``, which a profile has part in."""
        if self.max_completion_tokens is not None:
            self.check_sampling("max_completion_tokens", self.max_completion_tokens)
        else:
            # Deprecated: held to what max_completion_tokens is held to (ruling 3).
            if self.max_tokens == 0:
                raise InvalidField("max_tokens: must be at least 1, not 0")
            self.check_sampling("max_tokens", self.max_tokens)
        if self.top_logprobs is not None and self.logprobs is not True:
            raise InvalidField("top_logprobs: only allowed when logprobs is true")
        response_format = self.response_format
        is_json = False
        if response_format is not None:
            is_json = type(response_format) is not TextFormat
            if type(response_format) is JsonSchemaFormat:
                _check_schema(response_format.json_schema.schema)
        if self.regex is not None or self.ebnf is not None:
            check_constraints({"regex": self.regex, "ebnf": self.ebnf}, is_json)
        for message in self.messages:
            if type(message) is Assistant and message.reasoning is not UNSET:
                if message.reasoning_content is not UNSET:
                    raise BadBody("messages: duplicate field `reasoning_content`")

    def least_inner_keys(self) -> int:
        """Two for each message, if all have content beside their role."""
        messages = self.messages
        for message in messages:
            if message.content is UNSET:
                return 0
        return 2 * len(messages)

    def check_tool_choice(self, declared: Sequence[str] = ()) -> None:
        """Hold ``tool_choice`` to the tools there are, ``declared`` ones included."""
        choice = self.tool_choice
        if choice is None or choice == "auto" or choice == "none":
            return
        names = {tool.function.name for tool in self.tools or ()}
        names.update(declared)
        if not names:
            raise InvalidField("tool_choice: only allowed when tools are given")
        if isinstance(choice, NamedTool):
            wanted = [choice.function.name]
        elif isinstance(choice, AllowedTools):
            wanted = [tool.name for tool in choice.tools]
        else:
            return
        for name in wanted:
            if name not in names:
                raise InvalidField(f"tool_choice: no tool is named {name[:100]!r}")

    @property
    def is_tool_forced(self) -> bool:
        """Whether the model must call a tool."""
        choice = self.tool_choice
        if isinstance(choice, AllowedTools):
            return choice.mode == "required"
        return choice == "required" or isinstance(choice, NamedTool)


def _check_schema(schema: Raw) -> None:
    if memoryview(schema)[0] != ord("{"):
        raise InvalidField("response_format.json_schema.schema: must be a JSON object")


SCHEMA = Schema(ChatRequest)
