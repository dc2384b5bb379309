"""The parsers that a worker may name for its model's reasoning and tool calls.

An engine behind HTTP parses by itself, so the names change nothing about its requests;
but a name that no gateway knows is a mistake of whoever registers the worker, and is
told instead of kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smgproxy.fleet.fields import InvalidSpec

TOOL_PARSERS = frozenset(
    (
        *("json", "llama", "pythonic", "mistral", "qwen", "qwen_xml", "qwen_coder"),
        *("nemotron", "deepseek", "deepseek31", "deepseek32", "deepseek_v4"),
        *("deepseek_v41", "glm45_moe", "glm47_moe", "kimik2", "kimi_k3"),
        *("minimax_m2", "minimax_m3", "cohere", "step3", "sarashina", "inkling"),
        *("gemma4", "hy_v4", "passthrough"),
    )
)
REASONING_PARSERS = frozenset(
    (
        *("base", "deepseek_r1", "deepseek_v31", "deepseek_v4", "deepseek_v41"),
        *("qwen3", "qwen3_thinking", "glm45", "kimi", "kimi_thinking", "kimi_k25"),
        *("kimi_k3", "step3", "minimax", "minimax_m3", "cohere_cmd", "nano_v3"),
        *("inkling", "gemma4", "hy_v4", "passthrough"),
    )
)
_FIELDS = {
    "tool_parser": ("tool-call", TOOL_PARSERS),
    "reasoning_parser": ("reasoning", REASONING_PARSERS),
}
_SHOWN_CHARACTERS = 100


def check_parsers(place: str, named: Mapping[str, Any]) -> None:
    """Refuse a parser that labels or a model card name and nobody knows.

    ``place`` is what they are called in the spec; an empty name is none. Raises
    InvalidSpec.
    """
    for field, (kind, known) in _FIELDS.items():
        name = named.get(field)
        if name and name not in known:
            raise InvalidSpec(
                f"Invalid value for field '{place}.{field}': "
                f"unknown {kind} parser {name[:_SHOWN_CHARACTERS]!r}"
            )
