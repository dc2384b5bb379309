"""A refusal of a text that is none of a few says which those are."""

from __future__ import annotations

import pytest
import ujson

from smgproxy.api.chat import ChatRequest
from smgproxy.api.choices import choices_at
from tests.api.reading import MESSAGES, fault

CHAT = {"model": "m", "messages": MESSAGES}
NAMED = {"type": "allowed_tools", "mode": "all", "tools": []}
QUESTIONS = {"model": "m", "input": "a", "questions": []}


@pytest.mark.parametrize(
    ("route", "body", "value", "place", "allowed"),
    [
        (
            *("chat", CHAT | {"thinking": {"type": "on"}}, "on", "thinking.type"),
            "one of enabled, disabled, adaptive",
        ),
        (
            *("chat", CHAT | {"messages": [{"role": "boss"}]}, "boss"),
            *("messages[0].role", "one of system, developer, user, assistant, tool, "),
        ),
        (
            *("chat", CHAT | {"tool_choice": "any"}, "any", "tool_choice"),
            "one of none, auto, required",
        ),
        (
            *("chat", CHAT | {"tool_choice": {"type": "x"}}, "x", "tool_choice.type"),
            "one of function, allowed_tools",
        ),
        (
            *("chat", CHAT | {"tool_choice": NAMED}, "all", "tool_choice.mode"),
            "one of auto, required",
        ),
        (
            *("chat", CHAT | {"response_format": {"type": "xml"}}, "xml"),
            *("response_format.type", "one of text, json_object, json_schema"),
        ),
        (
            *("messages", CHAT | {"messages": [{"role": "tool"}], "max_tokens": 1}),
            *("tool", "messages[0].role", "one of user, assistant, system"),
        ),
        (
            *("decisions", QUESTIONS | {"input": [{"role": "tool", "content": "a"}]}),
            *("tool", "input[0].role", "user"),
        ),
        (
            *("decisions", QUESTIONS | {"questions": [{"type": "x"}]}, "x"),
            *("questions[0].type", "one of predicate, choice, score"),
        ),
    ],
)
def test_the_allowed_texts_are_named(
    route: str, body: dict[str, object], value: str, place: str, allowed: str
) -> None:
    said = fault(ujson.dumps(body).encode(), route)
    assert f"value '{value}' - at `$.{place}`, must be {allowed}" in said


def test_a_long_text_leaves_room_for_them() -> None:
    body = ujson.dumps(CHAT | {"tool_choice": "a" * 10_000}).encode()
    said = fault(body)
    assert said.endswith("aa - at `$.tool_choice`, must be one of none, auto, required")
    assert len(said) < 250


@pytest.mark.parametrize(
    "place", ["model", "temperature", "nothing", "messages[0].content", "tools[0].type"]
)
def test_where_any_text_goes_there_are_none(place: str) -> None:
    assert choices_at(ChatRequest, place) == []
