"""z.ai: the GLM family."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, Raw

from smgproxy.api.editing import Edits
from smgproxy.api.profiles.profile import Profile
from smgproxy.api.profiles.thinking import EFFORTS, efforts_within, refuse_adaptive
from smgproxy.core.errors import InvalidField

if TYPE_CHECKING:
    from smgproxy.api.chat import ChatRequest

_GLM53_EFFORTS = ("low", "high", "max")


def check_tools(request: ChatRequest) -> None:
    """Only functions are tools."""
    for place, tool in enumerate(request.tools or ()):
        if tool.type != "function":
            raise InvalidField(
                f"tools[{place}].type: must be function for this model, "
                f"not {tool.type[:100]!r}"
            )


def _names_file(kind: Raw) -> bool:
    """Whether a part's type is ``file_url``, however that is spelled."""
    text = bytes(kind)
    return text == b'"file_url"' or (
        b"\\" in text and msgspec.json.decode(text) == "file_url"
    )


def refuse_files(request: ChatRequest) -> None:
    """The gateway fetches no files for the model."""
    for place, message in enumerate(request.messages):
        if not isinstance(message.content, list):
            continue
        for part in message.content:
            if part.type is not UNSET and _names_file(part.type):
                raise InvalidField(
                    f"messages[{place}].content: file_url parts are not supported for "
                    "this model"
                )


def refuse_disabled_thinking(request: ChatRequest) -> None:
    """GLM-5.3 always thinks."""
    if request.thinking is not None and request.thinking.type == "disabled":
        raise InvalidField("thinking.type: disabled is not supported by this model")


def pass_clear_thinking(request: ChatRequest, body: bytes, edits: Edits) -> None:
    """``thinking.clear_thinking`` becomes a template variable unless that is set."""
    if request.thinking is None or request.thinking.clear_thinking is None:
        return
    variables = request.chat_template_kwargs
    if variables is None or variables.clear_thinking is UNSET:
        value = b"true" if request.thinking.clear_thinking else b"false"
        edits["chat_template_kwargs"] = {"clear_thinking": value}


def drop_tool_stream(request: ChatRequest, body: bytes, edits: Edits) -> None:
    """Tool-call deltas are streamed anyway."""
    if request.tool_stream is not UNSET:
        edits["tool_stream"] = None


ZAI = Profile(
    "zai",
    family="zai",
    markers=("glm", "zai", "z-ai"),
    rules=(
        refuse_adaptive,
        efforts_within(EFFORTS, "one of " + ", ".join(EFFORTS)),
        check_tools,
        refuse_files,
    ),
    rewrites=(pass_clear_thinking, drop_tool_stream),
)
GLM = dataclasses.replace(
    ZAI,
    name="glm",
    rank=1,
    markers=("glm-5", "glm5", "glm_5", "glm-4.6", "glm4.6", "glm-4.7", "glm4.7"),
    defaults={"temperature": b"1.0", "top_p": b"0.95"},
)
GLM53 = dataclasses.replace(
    GLM,
    name="glm-5.3",
    rank=2,
    markers=("glm-5.3", "glm5.3", "glm_5.3", "glm-5-3", "glm5-3"),
    rules=(
        *ZAI.rules,
        efforts_within(_GLM53_EFFORTS, "one of " + ", ".join(_GLM53_EFFORTS)),
        refuse_disabled_thinking,
    ),
)
PROFILES = (ZAI, GLM, GLM53)
