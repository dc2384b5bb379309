"""DeepSeek V4 and V4.1: thinking is on unless it is turned off."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import msgspec
from msgspec import UNSET, Raw, UnsetType

from smgproxy.api.chat import ChatRequest, TemplateVariables
from smgproxy.api.editing import Edits
from smgproxy.api.profiles.profile import Profile, Rewrite
from smgproxy.api.profiles.thinking import (
    EFFORTS,
    efforts_of,
    efforts_within,
    refuse_adaptive,
)
from smgproxy.core.errors import InvalidField

_BUDGETS = tuple(str(tokens) for tokens in range(1, 101))
_NONE = TemplateVariables()
_SWITCHES = {b"true": True, b"false": False, b"null": None}


def check_overrides(request: ChatRequest) -> None:
    """Both template switches are booleans and say the same."""
    variables = request.chat_template_kwargs or _NONE
    said = set()
    for name in ("thinking", "enable_thinking"):
        raw = _switch(getattr(variables, name))
        if raw not in _SWITCHES:
            raise InvalidField(
                f"chat_template_kwargs.{name}: must be true, false or null"
            )
        said.add(_SWITCHES[raw])
    if said == {True, False}:
        raise InvalidField(
            "chat_template_kwargs: thinking and enable_thinking must not disagree"
        )


def refuse_forced_tools(request: ChatRequest) -> None:
    """A model that thinks cannot be made to call a tool."""
    if request.is_tool_forced and is_thinking(request):
        raise InvalidField(
            "tool_choice: a tool cannot be forced while thinking is on; turn thinking "
            "off or let the model choose"
        )


def is_thinking(request: ChatRequest) -> bool:
    """A template switch decides, else the toggle, else the effort, else it is on."""
    variables = request.chat_template_kwargs or _NONE
    for raw in (variables.thinking, variables.enable_thinking):
        switch = _SWITCHES[_switch(raw)]
        if switch is not None:
            return switch
    if request.thinking is not None and request.thinking.type is not None:
        return request.thinking.type == "enabled"
    efforts = efforts_of(request)
    return not efforts or efforts[0][1] != "none"


def _switch(raw: Raw | UnsetType) -> bytes:
    return b"null" if raw is UNSET else bytes(raw)


def switch_thinking(request: ChatRequest, body: bytes, edits: Edits) -> None:
    """The template is told whether to think, unless the client told it."""
    variables = request.chat_template_kwargs or _NONE
    if _switch(variables.thinking) == b"null":
        value = b"true" if is_thinking(request) else b"false"
        edits["chat_template_kwargs"] = {"thinking": value}


def levels_as(levels: Mapping[str, str]) -> Rewrite:
    """A rewrite of effort levels into those that the model knows."""

    def rewrite(request: ChatRequest, body: bytes, edits: Edits) -> None:
        for name, effort in efforts_of(request):
            if effort not in levels:
                continue
            value = msgspec.json.encode(levels[effort])
            if name == "reasoning_effort":
                edits[name] = value
            else:
                edits["thinking"] = {"effort": value}

    return rewrite


_LEVELS = {"minimal": "low", "medium": "high", "xhigh": "high"}
_LEVELS_41 = {"minimal": "low", "medium": "high"}
_NAMED = "one of " + ", ".join(EFFORTS)

V4 = Profile(
    "deepseek_v4",
    family="deepseek",
    markers=("deepseek-flash", "deepseek-v4-flash", "deepseek-v4-pro"),
    is_exact=True,
    rules=(
        refuse_adaptive,
        efforts_within(EFFORTS, _NAMED),
        check_overrides,
        refuse_forced_tools,
    ),
    rewrites=(levels_as(_LEVELS), switch_thinking),
)
V41 = dataclasses.replace(
    V4,
    name="deepseek_v4.1",
    markers=("deepseek-v4.1-flash",),
    rules=(
        refuse_adaptive,
        efforts_within(
            (*EFFORTS, *_BUDGETS), f"{_NAMED}, or a whole number from 1 to 100"
        ),
        check_overrides,
        refuse_forced_tools,
    ),
    rewrites=(levels_as(_LEVELS_41), switch_thinking),
)
PROFILES = (V4, V41)
