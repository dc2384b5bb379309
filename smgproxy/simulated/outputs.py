"""Answers that are no prose: a call of a tool, or JSON that follows a schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import ujson

# Schemas may refer to themselves; a value nests no deeper than this.
_MAX_DEPTH = 16
_TOKEN_CHARACTERS = 4


@dataclass(frozen=True, slots=True)
class Output:
    """What is said in place of words: a text, or a tool's arguments."""

    text: str
    tool: str | None = None

    @property
    def tokens(self) -> tuple[str, ...]:
        """The text in tokens."""
        places = range(0, len(self.text), _TOKEN_CHARACTERS)
        return tuple(self.text[place : place + _TOKEN_CHARACTERS] for place in places)


class Function(msgspec.Struct):
    """A function that can be called."""

    name: str
    parameters: Any = None


class Tool(msgspec.Struct):
    """One entry of `tools`."""

    function: Function | None = None


class Format(msgspec.Struct):
    """`response_format`."""

    type: str
    json_schema: dict[str, Any] | None = None


def output_of(
    tools: list[Tool] | None, choice: Any, answer_format: Format | None
) -> Output | None:
    """What must be said; None where the model is free to speak.

    A tool is called when the client insists on one, the first if any will do.
    """
    functions = [tool.function for tool in tools or () if tool.function is not None]
    if isinstance(choice, dict):
        name = choice.get("function", {}).get("name")
        functions = [one for one in functions if one.name == name]
    if functions and (choice == "required" or isinstance(choice, dict)):
        called = functions[0]
        return Output(ujson.dumps(example(called.parameters or {})), called.name)
    if answer_format is None or answer_format.type == "text":
        return None
    schema = (answer_format.json_schema or {}).get("schema", {"type": "object"})
    return Output(ujson.dumps(example(schema)))


def example(schema: Any) -> Any:
    """A value that a schema describes, as far as plain ones go."""
    return _example(schema, schema, 0)


def _example(schema: Any, root: Any, depth: int) -> Any:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return None
    if "$ref" in schema:
        return _example(_referred(schema["$ref"], root), root, depth + 1)
    if "const" in schema:
        return schema["const"]
    for choices in ("enum", "anyOf", "oneOf"):
        if schema.get(choices):
            first = schema[choices][0]
            return first if choices == "enum" else _example(first, root, depth + 1)
    kind = schema.get("type", "object")
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: _example(fields[name], root, depth + 1) for name in fields}
    if kind == "array":
        count = schema.get("minItems", 1)
        return [_example(schema.get("items", {}), root, depth + 1)] * min(count, 8)
    plain = {"string": "word", "integer": 1, "number": 0.5, "boolean": True}
    return plain.get(kind)


def _referred(place: str, root: Any) -> Any:
    """What a local reference, `#/$defs/Name`, leads to."""
    for name in place.split("/")[1:]:
        root = root.get(name) if isinstance(root, dict) else None
    return root


def logprobs_of(tokens: tuple[str, ...], top: int) -> dict[str, Any]:
    """The log probabilities of tokens, with `top` alternatives each."""
    return {
        "content": [
            {**_token(one, 0), "top_logprobs": _top(one, top)} for one in tokens
        ]
    }


def _top(token: str, count: int) -> list[dict[str, Any]]:
    return [
        _token(token if rank == 0 else f"{token}{rank}", rank) for rank in range(count)
    ]


def _token(text: str, rank: int) -> dict[str, Any]:
    return {"token": text, "logprob": -0.1 - rank, "bytes": list(text.encode())}
