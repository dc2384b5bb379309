"""Answers that are no prose: smgproxy/simulated/outputs.py."""

from __future__ import annotations

import json
from typing import Any

import pytest

from smgproxy.simulated.outputs import (
    Format,
    Function,
    Output,
    Tool,
    example,
    logprobs_of,
    output_of,
)

TOOLS = [Tool(Function("a")), Tool(Function("b", {"properties": {"x": {"const": 3}}}))]


@pytest.mark.parametrize("choice", [None, "auto", "none"])
def test_a_model_that_may_choose_speaks(choice: Any) -> None:
    assert output_of(TOOLS, choice, None) is None
    assert output_of(TOOLS, choice, Format("text")) is None


def test_a_tool_is_called_when_the_client_insists() -> None:
    assert output_of(TOOLS, "required", None) == Output("{}", "a")
    named = {"type": "function", "function": {"name": "b"}}
    assert output_of(TOOLS, named, None) == Output('{"x":3}', "b")
    assert output_of(None, "required", None) is None


def test_a_format_is_followed() -> None:
    assert output_of(None, None, Format("json_object")) == Output("{}")
    schema = {"schema": {"properties": {"x": {"type": "string"}}}}
    assert output_of(None, None, Format("json_schema", schema)) == Output(
        '{"x":"word"}'
    )


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "integer"}}, [1]),
        ({"type": "array", "minItems": 3, "items": {"type": "boolean"}}, [True] * 3),
        ({"enum": ["x", "y"]}, "x"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, 0.5),
        ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, "word"),
        ({"$ref": "#/$defs/B"}, None),
        ({"type": "null"}, None),
        (True, None),
        ("no schema", None),
    ],
)
def test_an_example_is_what_its_schema_describes(schema: Any, value: Any) -> None:
    assert example(schema) == value


def test_a_schema_that_refers_to_itself_has_an_end() -> None:
    node = {"properties": {"next": {"$ref": "#/$defs/N"}}}
    assert json.dumps(example({"$ref": "#/$defs/N", "$defs": {"N": node}}))


def test_the_tokens_are_the_whole_text() -> None:
    output = Output('{"a":"some text"}')
    assert "".join(output.tokens) == output.text and len(output.tokens) > 3


def test_each_token_has_its_probability_and_as_many_more_as_asked() -> None:
    [first, second] = logprobs_of(("é", "b"), 2)["content"]
    assert first["bytes"] == list("é".encode())
    assert [one["token"] for one in second["top_logprobs"]] == ["b", "b1"]
