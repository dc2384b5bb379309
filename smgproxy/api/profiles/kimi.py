"""Kimi: tools may be declared on messages, and streams report their usage."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from smgproxy.api.editing import Edits
from smgproxy.api.profiles.profile import Profile
from smgproxy.core.errors import InvalidField

if TYPE_CHECKING:
    from smgproxy.api.chat import ChatRequest
    from smgproxy.api.conversation import Message

TOOL_ROLES = frozenset(("system", "developer"))
_NO_TOOL_ROLES = frozenset(("user", "assistant"))
_NULL = msgspec.Raw(b"null")  # some clients write out what they leave unset
_LONGEST_NAME = 256
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Function(msgspec.Struct):
    name: str


class _Tool(msgspec.Struct):
    type: str
    function: _Function


_decode_tools = msgspec.json.Decoder(list[_Tool] | None).decode


def check_message_tools(request: ChatRequest) -> None:
    """Who may declare tools, in which form and under which names."""
    taken = {tool.function.name for tool in request.tools or ()}
    for place, message in enumerate(request.messages):
        if message.tools is UNSET or message.tools == _NULL:
            continue
        where = f"messages[{place}].tools"
        if message.role in _NO_TOOL_ROLES:
            raise InvalidField(
                f"{where}: only system and developer messages may declare tools, "
                f"not {message.role} messages"
            )
        if message.role not in TOOL_ROLES:
            continue
        tools = _tools_of(message, where)
        if tools and message.content:
            raise InvalidField(
                f"{where}: a message that declares tools must have no other content"
            )
        for tool in tools:
            _check_tool(tool, where, taken)
            taken.add(tool.function.name)


def _tools_of(message: Message, where: str) -> list[_Tool]:
    assert message.tools is not UNSET
    try:
        return _decode_tools(message.tools) or []
    except msgspec.ValidationError:
        raise InvalidField(f"{where}: must be a list of tools") from None


def _check_tool(tool: _Tool, where: str, taken: set[str]) -> None:
    name = tool.function.name
    if tool.type != "function":
        raise InvalidField(f"{where}: type must be function, not {tool.type[:100]!r}")
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidField(
            f"{where}: name {name[:100]!r} must match [A-Za-z_][A-Za-z0-9_]* "
            f"and have at most {_LONGEST_NAME} characters"
        )
    if name in taken:
        raise InvalidField(f"{where}: a tool named {name!r} is already declared")


def declared_tools(request: ChatRequest) -> tuple[str, ...]:
    """The names of the tools on messages, which were checked before."""
    return tuple(_declared(request))


def _declared(request: ChatRequest) -> Iterator[str]:
    for message in request.messages:
        if message.tools is not UNSET and message.role in TOOL_ROLES:
            for tool in _decode_tools(message.tools) or ():
                yield tool.function.name


def report_usage(request: ChatRequest, body: bytes, edits: Edits) -> None:
    """A stream's usage is reported unless the client said otherwise."""
    if request.stream is not True:
        return
    options = request.stream_options
    if options is None or options.include_usage is None:
        edits["stream_options"] = {"include_usage": b"true"}


KIMI = Profile(
    "kimi",
    family="kimi",
    markers=("kimi", "moonshot"),
    rules=(check_message_tools,),
    rewrites=(report_usage,),
    tool_roles=TOOL_ROLES,
    declared_tools=declared_tools,
)
PROFILES = (KIMI,)
