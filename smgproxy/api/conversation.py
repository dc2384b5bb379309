"""The messages of a chat, by role (seed: Message Object).

A content part of an unknown type, or a known one with an odd payload, is the worker's
to judge (seed: Content Parts). ``tools`` on a message is Kimi's; it is
kept raw on every role, for the profiles to refuse, use or drop.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType


class _Media(msgspec.Struct):
    """What is modelled of a payload."""

    url: Raw
    detail: Raw
    max_long_side_pixel: Raw
    fps: Raw


class _Audio(msgspec.Struct):
    data: Raw
    format: Raw


class Part(msgspec.Struct, gc=False):
    """A piece of content; any payload goes, so that two of its keys stay raw."""

    type: Raw | UnsetType = UNSET
    text: Raw | UnsetType = UNSET


class _ModelledPart(Part, kw_only=True):
    image_url: _Media
    video_url: _Media
    audio_url: _Media
    input_audio: _Audio


Parts = Annotated[list[Part], Meta(extra={"shape": list[_ModelledPart]})]
Content = str | Parts
FilledContent = (
    Annotated[str, Meta(min_length=1)]
    | Annotated[list[Part], Meta(min_length=1, extra={"shape": list[_ModelledPart]})]
)


class _Function(msgspec.Struct):
    name: Raw
    description: Raw
    parameters: Raw
    strict: Raw


class _Tool(msgspec.Struct):
    type: Raw
    function: _Function


MessageTools = Annotated[Raw, Meta(extra={"shape": list[_Tool]})]


class Message(msgspec.Struct, tag_field="role", kw_only=True, gc=False):
    """What every role has."""

    role: ClassVar[str]
    content: Content | None | UnsetType = UNSET
    tools: MessageTools | UnsetType = UNSET


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


class FunctionCall(msgspec.Struct, gc=False):
    """What the assistant called; the arguments are JSON in a string."""

    name: str
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
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
