"""Bodies of /v1/decisions."""

from __future__ import annotations

from typing import Any

import ujson

PREDICATE = {"type": "predicate", "instructions": "Is it?"}
CHOICE = {
    "type": "choice",
    "name": "which",
    "instructions": "Which?",
    "choices": [{"value": True}, {"value": "true", "description": ""}],
}
SCORE = {
    "type": "score",
    "instructions": "How much?",
    "levels": [{"label": "low"}, {"label": "mid"}, {"label": "high"}],
}
PNG = "data:image/png;base64,***"
MIB = 1024 * 1024


def body_of(**fields: Any) -> bytes:
    asked = {"model": "m", "input": "text", "questions": [PREDICATE], **fields}
    return ujson.dumps(asked, escape_forward_slashes=False).encode()


def with_part(**part: Any) -> bytes:
    return body_of(input=[{"role": "user", "content": [part]}])


def with_images(count: int, messages: int = 1) -> bytes:
    part = {"type": "input_image", "image_url": PNG}
    message = {"role": "user", "content": [part] * count}
    return body_of(input=[message] * messages)
