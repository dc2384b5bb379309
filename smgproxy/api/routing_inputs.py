"""What a typed body says to the choice of a worker (contract, routing inputs)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from smgproxy.api.chat import ChatRequest
from smgproxy.api.completions import CompletionRequest
from smgproxy.api.conversation import Assistant
from smgproxy.api.fields import Body
from smgproxy.api.generate import GenerateRequest
from smgproxy.api.messages import MessagesRequest


class _TextPart(msgspec.Struct):
    text: str


_part = msgspec.json.Decoder(_TextPart)
_ids = msgspec.json.Decoder(list[int])


def routing_text(request: Body | None) -> str:
    """The prompt's text: all messages in order, joined with one space.

    Parts that are no text contribute nothing, roles neither.
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
        for turn in request.messages:
            _add(turn.content, pieces)
        return " ".join(pieces)
    if isinstance(request, CompletionRequest):
        prompt = request.prompt
        return prompt if type(prompt) is str else " ".join(prompt)
    if isinstance(request, GenerateRequest):
        return request.text or ""
    return ""


def routing_ids(request: Body | None) -> Sequence[int] | None:
    """The token ids of a ``/generate``; of a batch, its first sequence."""
    if not isinstance(request, GenerateRequest) or not request.input_ids:
        return None
    ids = request.input_ids
    try:
        if bytes(ids[0])[:1] == b"[":
            return _ids.decode(ids[0])
        return _ids.decode(b"[" + b",".join([bytes(one) for one in ids]) + b"]")
    except msgspec.DecodeError:
        return None  # the worker's to judge


def routing_rid(request: Body | None) -> str | None:
    """The request's own id, which tells its lineage; the first of a list."""
    rid = getattr(request, "rid", None)
    if isinstance(rid, list):
        rid = rid[0] if rid else None
    return rid if isinstance(rid, str) else None


def cache_fields(request: Body | None) -> tuple[str | None, ...]:
    """What keeps an engine's cache entries apart: salt, extra key, adapter."""
    salt, extra = getattr(request, "cache_salt", None), getattr(
        request, "extra_key", None
    )
    adapter = "lora_id" if isinstance(request, GenerateRequest) else "lora_path"
    return _text(salt), _text(extra), _text(getattr(request, adapter, None))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _add(content: object, pieces: list[str]) -> None:
    if type(content) is str:
        pieces.append(content)
    elif isinstance(content, list):
        parts: Iterable[Any] = content
        for raw in parts:
            try:
                pieces.append(_part.decode(raw).text)
            except msgspec.DecodeError:
                continue  # an image, a sound
