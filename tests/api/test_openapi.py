"""The description says what the reader of bodies holds clients to."""

from __future__ import annotations

import json
from typing import Any

from smgproxy.api.endpoints import INFERENCE
from smgproxy.api.openapi import document

DOCUMENT = document()
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if "$ref" in value else set()
        return own.union(*map(_references, value.values()))
    if isinstance(value, list):
        return set().union(*map(_references, value))
    return set()


def test_it_is_json_and_every_reference_leads_somewhere() -> None:
    found = _references(json.loads(json.dumps(DOCUMENT)))
    assert {name.removeprefix("#/components/schemas/") for name in found} <= set(
        SCHEMAS
    )


def test_every_inference_route_is_described() -> None:
    assert {endpoint.path for endpoint in INFERENCE} <= set(DOCUMENT["paths"])


def test_a_transcription_is_described_as_a_form() -> None:
    operation = DOCUMENT["paths"]["/v1/audio/transcriptions"]["post"]
    [(kind, content)] = operation["requestBody"]["content"].items()
    assert kind == "multipart/form-data"
    assert content["schema"]["required"] == ["file", "model"]
    assert "timestamp_granularities[]" in content["schema"]["properties"]
    kinds = list(operation["responses"]["400"]["content"])
    assert kinds == ["text/plain", "application/json"], "the worker's faults are JSON"


def test_ranges_are_those_that_are_checked() -> None:
    fields = SCHEMAS["ChatRequest"]["properties"]
    assert fields["temperature"]["anyOf"][0] == {
        "type": "number",
        "minimum": 0,
        "maximum": 2,
    }
    assert fields["n"]["anyOf"][0] == {"type": "integer", "minimum": 1, "maximum": 10}
    assert SCHEMAS["ChatRequest"]["required"] == ["model", "messages"]


def test_messages_errors_are_anthropics() -> None:
    responses = DOCUMENT["paths"]["/v1/messages"]["post"]["responses"]
    schema = responses["400"]["content"]["application/json"]["schema"]
    assert schema["anyOf"][0] == {"$ref": "#/components/schemas/AnthropicError"}
