"""MiniMax: root messages, and a tool-call history that adds up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from smgproxy.api.conversation import Assistant, ToolCall, ToolResult
from smgproxy.api.fields import Object
from smgproxy.api.profiles.profile import Profile
from smgproxy.core.errors import InvalidField

if TYPE_CHECKING:
    from smgproxy.api.chat import ChatRequest


def check_tool_calls(request: ChatRequest) -> None:
    """Each call has an id of its own, object arguments and, later, one answer."""
    seen: set[str] = set()
    pending: set[str] = set()
    for place, message in enumerate(request.messages):
        if type(message) is Assistant:
            where = f"messages[{place}].tool_calls"
            for call in message.tool_calls or ():
                if call.id in seen:
                    raise InvalidField(
                        f"{where}: the id {call.id[:100]!r} is used twice"
                    )
                _check_arguments(call, where)
                seen.add(call.id)
                pending.add(call.id)
        elif type(message) is ToolResult:
            if message.tool_call_id not in pending:
                raise InvalidField(
                    f"messages[{place}].tool_call_id: {message.tool_call_id[:100]!r} "
                    "answers no pending tool call"
                )
            pending.remove(message.tool_call_id)
    if pending:
        raise InvalidField(
            f"messages: the tool call {min(pending)[:100]!r} has no tool message that "
            "answers it"
        )


_object = msgspec.json.Decoder(Object).decode


def _check_arguments(call: ToolCall, where: str) -> None:
    arguments = call.function.arguments
    if not arguments or arguments == "{}" or not arguments.strip():
        return
    try:
        _object(arguments)
    except (msgspec.DecodeError, RecursionError):
        raise InvalidField(
            f"{where}: the arguments of {call.id[:100]!r} must be a JSON object"
        ) from None


PROFILES = (
    Profile(
        "minimax",
        family="minimax",
        markers=("minimax", "abab"),
        rules=(check_tool_calls,),
        takes_root=True,
        reslices=True,
    ),
)
