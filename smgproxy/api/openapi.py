"""The OpenAPI description of what the gateway accepts, made of the types it reads.

Fields that are not modelled go to the worker as they are, so every object may have
more of them than it says here.
"""

from __future__ import annotations

from typing import Any

import msgspec

from smgproxy import __version__
from smgproxy.api import transcription
from smgproxy.api.endpoints import FORMS, INFERENCE, Endpoint
from smgproxy.api.replies import reason_phrase

_REF = "#/components/schemas/{name}"


class Fault(msgspec.Struct, rename={"type_": "type"}):
    """What is wrong with a request's body."""

    message: str
    type_: str
    code: int | str


class InvalidRequest(msgspec.Struct):
    """A body that is not JSON, not the schema's or against a rule."""

    error: Fault


class Failure(msgspec.Struct, rename={"type_": "type"}):
    """Why the gateway could not serve a request; ``type`` is the status's phrase."""

    type_: str
    code: str
    message: str
    param: None


class Envelope(msgspec.Struct):
    """Every other error of the gateway's own."""

    error: Failure


class AnthropicFault(msgspec.Struct, rename={"type_": "type"}):
    """An error in Anthropic's words."""

    type_: str
    message: str


class AnthropicError(msgspec.Struct, rename={"type_": "type"}):
    """Any error of the gateway's own on /v1/messages."""

    type_: str
    error: AnthropicFault


_ERRORS = (InvalidRequest, Envelope, AnthropicError)
_ENVELOPES = (404, 408, 413, 500, 502, 503, 504)


def document() -> dict[str, Any]:
    """The whole description, as OpenAPI 3.1."""
    bodies = list(dict.fromkeys(one.schema.kind for one in INFERENCE))
    kinds = (*bodies, *_ERRORS)
    refs, components = msgspec.json.schema_components(kinds, ref_template=_REF)
    ref_of = dict(zip(kinds, refs, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {"title": "smgproxy", "version": __version__},
        "paths": {
            **{one.path: {"post": _operation(one, ref_of)} for one in INFERENCE},
            **{one.path: {"post": _form(ref_of)} for one in FORMS},
            "/v1/models": {"get": _simple("The models that are served", (200, 503))},
            "/health": {"get": _simple("Whether the gateway lives", (200,))},
            "/liveness": {"get": _simple("Whether the gateway lives", (200,))},
            "/readiness": {
                "get": _simple("Whether a worker can serve requests", (200, 503))
            },
        },
        "components": {"schemas": components},
    }


def _operation(endpoint: Endpoint, ref_of: dict[Any, Any]) -> dict[str, Any]:
    invalid, envelope = (
        (AnthropicError, AnthropicError)
        if endpoint.is_anthropic
        else (InvalidRequest, Envelope)
    )
    answer: dict[str, Any] = {"application/json": {}}
    if endpoint.may_stream:
        answer["text/event-stream"] = {}
    responses: dict[str, Any] = {
        "200": {"description": "The worker's answer, relayed", "content": answer},
        "400": _error(400, ref_of[invalid]),
    }
    for status in _ENVELOPES:
        responses[str(status)] = _error(status, ref_of[envelope])
    responses["default"] = {"description": "The worker's answer, relayed"}
    summary = (endpoint.schema.kind.__doc__ or endpoint.name).strip().splitlines()[0]
    return {
        "summary": summary,
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": ref_of[endpoint.schema.kind]}},
        },
        "responses": responses,
    }


def _form(ref_of: dict[Any, Any]) -> dict[str, Any]:
    """The form of a transcription; its faults are told in plain text."""
    text: dict[str, Any] = {"type": "string"}
    fields = {
        "file": {"type": "string", "contentMediaType": "application/octet-stream"},
        **{name.decode(): text for name in transcription.FIELDS},
        "temperature": {"type": "number", "minimum": 0, "maximum": 1},
        transcription.GRANULARITIES.decode(): {"type": "array", "items": text},
        transcription.STREAM.decode(): {"type": "boolean"},
    }
    schema = {"type": "object", "properties": fields, "required": ["file", "model"]}
    relayed = {"schema": {"description": "The worker's, relayed"}}
    fault = {"text/plain": {"schema": text}, "application/json": relayed}
    responses: dict[str, Any] = {
        "200": {"description": "The worker's answer, relayed"},
        "400": {"description": reason_phrase(400), "content": fault},
    }
    for status in _ENVELOPES:
        responses[str(status)] = _error(status, ref_of[Envelope])
    responses["default"] = {"description": "The worker's answer, relayed"}
    return {
        "summary": "An audio file to transcribe.",
        "requestBody": {
            "required": True,
            "content": {"multipart/form-data": {"schema": schema}},
        },
        "responses": responses,
    }


def _error(status: int, *schemas: Any) -> dict[str, Any]:
    """An error of the gateway's own, or of the worker's."""
    relayed = {"description": "The worker's, relayed"}
    return {
        "description": reason_phrase(status),
        "content": {"application/json": {"schema": {"anyOf": [*schemas, relayed]}}},
    }


def _simple(summary: str, statuses: tuple[int, ...]) -> dict[str, Any]:
    responses = {str(one): {"description": reason_phrase(one)} for one in statuses}
    return {"summary": summary, "responses": responses}
