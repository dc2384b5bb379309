"""The messages of a chat, by role (seed: Message Object).

Content parts stay raw: a part of an unknown type, or a known one with an odd payload,
is the worker's to judge (seed: Content Parts). ``tools`` on a message is Kimi's; it is
kept raw on every role, for the profiles to refuse, use or drop.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

Content = str | list[Raw]
FilledContent = (
    Annotated[str, Meta(min_length=1)] | Annotated[list[Raw], Meta(min_length=1)]
)


class Message(msgspec.Struct, tag_field="role", kw_only=True):
    """What every role has."""

    role: ClassVar[str]
    content: Content | None | UnsetType = UNSET
    tools: Raw | UnsetType = UNSET


class System(Message, tag="system"):
    """Content is optional: Kimi's system messages may only declare tools."""

    role: ClassVar[str] = "system"
    content: Content | UnsetType = UNSET
    name: str | None = None


class Developer(Message, tag="developer"):
    """OpenAI's newer name for system instructions."""

    role: ClassVar[str] = "developer"
    content: Content
    name: str | None = None


class User(Message, tag="user"):
    """Content must not be empty."""

    role: ClassVar[str] = "user"
    content: FilledContent
    name: str | None = None


class FunctionCall(msgspec.Struct):
    """What the assistant called; the arguments are JSON in a string."""

    name: str
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    """One call of an assistant's message."""

    id: str
    function: FunctionCall
    type: str = "function"


class Assistant(Message, tag="assistant"):
    """An earlier answer of the model."""

    role: ClassVar[str] = "assistant"
    content: Content | None | UnsetType = UNSET
    name: str | None = None
    tool_calls: list[ToolCall] | None = None
    reasoning_content: str | None | UnsetType = UNSET
    reasoning: str | None | UnsetType = UNSET


class ToolResult(Message, tag="tool"):
    """What a tool call gave."""

    role: ClassVar[str] = "tool"
    content: Content
    tool_call_id: str


class FunctionResult(Message, tag="function"):
    """The deprecated form of a tool's result."""

    role: ClassVar[str] = "function"
    content: str
    name: str


class Root(Message, tag="root"):
    """MiniMax's instructions above the system's."""

    role: ClassVar[str] = "root"
    content: Content
    name: str | None = None


AnyMessage = System | Developer | User | Assistant | ToolResult | FunctionResult | Root

# Keys that no message may have twice.
MESSAGE_KEYS = (
    *("role", "content", "name", "tools", "tool_calls", "tool_call_id"),
    *("reasoning_content", "reasoning"),
)
