"""What a typed body says to the choice of a worker (contract, routing inputs)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, UnsetType

from smgproxy.api.chat import ChatRequest
from smgproxy.api.completions import CompletionRequest
from smgproxy.api.conversation import Assistant, Part
from smgproxy.api.decisions import DecisionsRequest
from smgproxy.api.fields import Body
from smgproxy.api.generate import GenerateRequest
from smgproxy.api.messages import MessagesRequest
from smgproxy.api.responses import ResponsesRequest

_STRING, _ARRAY = ord('"'), ord("[")
# A longer list of ids of requests, or key of cache entries, is nobody's.
_LONGEST_KEY = 64 * 1024

_string = msgspec.json.Decoder(str)
_ids = msgspec.json.Decoder(list[int])
_batch = msgspec.json.Decoder(list[list[int]])
_raws = msgspec.json.Decoder(list[Raw])
_content = msgspec.json.Decoder(str | list[Part])


def routing_text(request: Body | None) -> str:
    """The prompt's text: all messages in order, joined with one space.

    Parts that are no text contribute nothing, roles neither. Anthropic's ``system``
    stands first; of the Responses API the items that have content count.
    """
    if type(request) is ChatRequest:
        pieces: list[str] = []
        for message in request.messages:
            _add(message.content, pieces)
            if type(message) is Assistant and type(message.reasoning_content) is str:
                pieces.append(message.reasoning_content)
        return " ".join(pieces)
    if isinstance(request, MessagesRequest):
        pieces = []
        _add(request.system, pieces)
        for turn in request.messages:
            _add(turn.content, pieces)
        return " ".join(pieces)
    if isinstance(request, ResponsesRequest):
        return _text_of_input(request)
    if isinstance(request, CompletionRequest):
        prompt = request.prompt
        return prompt if type(prompt) is str else " ".join(prompt)
    if isinstance(request, GenerateRequest):
        return request.text or ""
    if isinstance(request, DecisionsRequest):
        return " ".join(request.texts())
    return ""


def routing_ids(request: Body | None) -> Sequence[int] | None:
    """The token ids of a ``/generate``; of a batch, its first sequence."""
    if type(request) is not GenerateRequest or request.input_ids is UNSET:
        return None
    text = bytes(request.input_ids)
    try:
        if text[1:].lstrip()[:1] == b"[":
            batch = _batch.decode(text)
            return batch[0] if batch else None
        return _ids.decode(text) or None
    except msgspec.DecodeError:
        return None  # the worker's to judge


def routing_rid(request: Body | None) -> str | None:
    """The request's own id, which tells its lineage; the first of a list."""
    rid: str | Raw | UnsetType | None = getattr(request, "rid", None)
    if isinstance(rid, Raw) and memoryview(rid)[0] == _ARRAY:
        if len(memoryview(rid)) > _LONGEST_KEY:
            return None
        ids = _raws.decode(rid)
        rid = ids[0] if ids else None
    return _text(rid)


def cache_fields(request: Body | None) -> tuple[str | None, ...]:
    """What keeps an engine's cache entries apart: salt, extra key, adapter."""
    if request is None:
        return None, None, None
    adapter = "lora_id" if type(request) is GenerateRequest else "lora_path"
    return (
        _text(request.cache_salt),
        _text(request.extra_key),
        _text(getattr(request, adapter, None)),
    )


def _text(value: str | Raw | UnsetType | None) -> str | None:
    """What is a text, as such; a value of any other type is the worker's to judge."""
    if value is None or isinstance(value, str):
        return value
    if value is UNSET:
        return None
    return _string.decode(value) if memoryview(value)[0] == _STRING else None


def _text_of_input(request: ResponsesRequest) -> str:
    if isinstance(request.input, str):
        return request.input
    pieces: list[str] = []
    for item in request.input:
        if item.content is not UNSET:
            try:
                _add(_content.decode(item.content), pieces)
            except msgspec.ValidationError:
                continue  # of another form, which the worker may know
    return " ".join(pieces)


def _add(content: object, pieces: list[str]) -> None:
    if type(content) is str:
        pieces.append(content)
    elif isinstance(content, list):
        parts: list[Part] = content
        for part in parts:
            # An image or a sound has none; what is no text is the worker's to judge.
            raw = part.text
            if raw is not UNSET and memoryview(raw)[0] == _STRING:
                pieces.append(_string.decode(raw))
