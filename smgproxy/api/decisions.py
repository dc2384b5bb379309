"""POST /v1/decisions: questions to be answered about one text (seed: Decisions).

What a worker of SGLang's is asked instead is in systemone.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from smgproxy.api.fields import Body
from smgproxy.api.schema import Schema
from smgproxy.core.errors import InvalidField

MAX_IMAGES = 128

# Lengths count characters, not bytes.
Short = Annotated[str, Meta(max_length=1_048_576)]
Long = Annotated[str, Meta(max_length=10_485_760)]
EndUser = Annotated[str, Meta(max_length=128)]

# The payload is the worker's to decode; only whether there is one is looked at.
_IMAGE_URL = re.compile(r"data:image/[\w.+-]+(?:;[^;,]*)*;base64,.", re.DOTALL)


class TextPart(msgspec.Struct, tag_field="type", tag="input_text", gc=False):
    """A text in a message."""

    text: Long


class ImagePart(msgspec.Struct, tag_field="type", tag="input_image", gc=False):
    """An image in a message, as a data URL."""

    image_url: str
    detail: Literal["low", "high", "auto", "original"] | None = None


class Message(msgspec.Struct, gc=False):
    """A piece of the evidence; it comes from the user, whoever wrote it."""

    role: Literal["user"]
    content: str | list[TextPart | ImagePart]
    type: Literal["message"] | UnsetType = UNSET

    def parts(self) -> list[TextPart | ImagePart]:
        """Its content in parts; a plain text is one."""
        content = self.content
        return [TextPart(content)] if isinstance(content, str) else content


def _has_image(message: Message) -> bool:
    return not isinstance(message.content, str) and any(
        type(part) is ImagePart for part in message.content
    )


class Option(msgspec.Struct, gc=False):
    """One entry of ``choices``: ``true`` and ``"true"`` are two different values."""

    value: str | bool
    description: Short | UnsetType = UNSET


class Level(msgspec.Struct, gc=False):
    """One entry of ``levels``, the lowest first."""

    label: Short
    description: Short | UnsetType = UNSET


class Predicate(msgspec.Struct, tag_field="type", tag="predicate", gc=False):
    """Is it so?"""

    instructions: Short
    name: Short | UnsetType = UNSET


class Choice(msgspec.Struct, tag_field="type", tag="choice", gc=False):
    """Which of these is it?"""

    instructions: Short
    choices: list[Option]
    name: Short | UnsetType = UNSET


class Score(msgspec.Struct, tag_field="type", tag="score", gc=False):
    """How much is it?"""

    instructions: Short
    levels: list[Level]
    name: Short | UnsetType = UNSET


Question = Predicate | Choice | Score


class DecisionsRequest(Body, kw_only=True):
    """Questions about one text, each answered with probabilities."""

    model: Short
    input: str | list[Message]
    questions: list[Question]
    safety_identifier: EndUser | None = None
    # No field of this route: an extension, which may have any type.
    stream: Raw | UnsetType = UNSET  # type: ignore[assignment]

    def check(self) -> None:
        """Hold the rules of images. Raises InvalidField."""
        if isinstance(self.input, str) or not any(map(_has_image, self.input)):
            return
        images = 0
        for place, part in self.parts():
            if not isinstance(part, ImagePart):
                continue
            images += 1
            if images > MAX_IMAGES:
                raise InvalidField(f"input: must have at most {MAX_IMAGES} images")
            if _IMAGE_URL.match(part.image_url) is None:
                raise InvalidField(
                    f"{place}.image_url: must be an inline image, "
                    "data:image/<type>;base64,<data>"
                )

    def count_parts(self) -> int:
        """How many parts the input has."""
        if isinstance(self.input, str):
            return 1
        contents = [message.content for message in self.input]
        return sum(1 if isinstance(one, str) else len(one) for one in contents)

    def parts(self) -> Iterator[tuple[str, TextPart | ImagePart]]:
        """Every part of the input with its place; a plain text is one part."""
        if isinstance(self.input, str):
            yield "input", TextPart(self.input)
            return
        for index, message in enumerate(self.input):
            for number, part in enumerate(message.parts()):
                yield f"input[{index}].content[{number}]", part

    def texts(self) -> list[str]:
        """Every text of the input, in order."""
        return [part.text for _, part in self.parts() if isinstance(part, TextPart)]


SCHEMA = Schema(DecisionsRequest)
