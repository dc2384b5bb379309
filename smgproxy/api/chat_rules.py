"""A chat under its model's profile: the rules, then the edits of its body."""

from __future__ import annotations

import logging
from collections.abc import Generator

import msgspec
from msgspec import UNSET

from smgproxy.api.chat import ChatRequest
from smgproxy.api.conversation import Root
from smgproxy.api.editing import Edits, rebuilt_messages
from smgproxy.api.outline import raw_field
from smgproxy.api.profiles.profile import Profile
from smgproxy.api.profiles.thinking import decimal_text
from smgproxy.core.errors import InvalidField

_log = logging.getLogger("smgproxy.api")


def hold_to_profile(
    request: ChatRequest, body: bytes, profile: Profile, edits: Edits
) -> Generator[None, None, bytes] | None:
    """Hold a chat to its profile, and note the edits that the profile orders.

    Returns the steps that make the text of its messages if those are to be edited.
    Raises InvalidField.
    """
    has_root = has_foreign_tools = False
    for message in request.messages:
        if message.tools is not UNSET and message.role not in profile.tool_roles:
            has_foreign_tools = True
        if type(message) is Root:
            has_root = True
    if has_root and not profile.takes_root:
        raise InvalidField("messages: the role root is not allowed for this model")
    for rule in profile.rules:
        rule(request)
    if request.tool_choice is not None:
        request.check_tool_choice(profile.declared_tools(request))
    effort = request.reasoning_effort
    if effort is not None and not isinstance(effort, str):
        edits["reasoning_effort"] = msgspec.json.encode(decimal_text(effort))
    for name, default in profile.defaults.items():
        if getattr(request, name) is None:
            edits[name] = default
    for rewrite in profile.rewrites:
        rewrite(request, body, edits)
    if has_foreign_tools:
        _log.warning("tools on messages were dropped: the model's profile has none")
    if not has_root and not has_foreign_tools:
        return None
    raw = raw_field(body, "messages")
    assert raw is not None
    return rebuilt_messages(
        raw, request.messages, profile.tool_roles, profile.takes_root
    )
