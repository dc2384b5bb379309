"""Transcriptions: words that follow from the bytes of a file.

Pure: a form in, an `Ask` out, or a `BadAsk`; the shapes are OpenAI's.
"""

from typing import Any

from smgproxy.simulated.bodies import Ask, BadAsk
from smgproxy.simulated.engine import Limits, Prompt, digest
from smgproxy.simulated.forms import parts_of
from smgproxy.simulated.replies import (
    MARK,
    TEXT,
    Reply,
    split_at_mark,
    to_event,
    to_json,
)

# As if each of these were some two thirds of a second.
BYTES_PER_TOKEN = 1024
_FORMATS = (b"json", b"text")


def read_transcription(body: bytes | bytearray, served_model: str) -> Ask:
    """Say what is heard in a file; the same file always says the same."""
    parts = parts_of(body)
    file = parts.get(b"file")
    if not file:
        raise BadAsk("file: Field required")
    kind = bytes(parts.get(b"response_format", _FORMATS[0]))
    if kind not in _FORMATS:
        raise BadAsk("response_format: simulated workers know json and text")
    size = max(1, len(file) // BYTES_PER_TOKEN)
    seed = digest((file.decode("latin-1"),)).seed
    return Ask(
        model=parts.get(b"model", b"").decode("utf-8", "replace") or served_model,
        prompts=(Prompt(seed, size),),
        choices=1,
        limits=Limits(max_tokens=size + 4),
        is_stream=bytes(parts.get(b"stream", b"")) == b"true",
        is_plain=kind == b"text",
    )


class TranscriptionReply(Reply):
    """`/v1/audio/transcriptions`: JSON, bare text, or an event for each word."""

    __slots__ = ()

    id_prefix = ""

    @property
    def content_type(self) -> bytes:
        return TEXT if self.ask.is_plain else super().content_type

    def whole(self) -> bytes:
        text = self.answer.generations[0].text
        if self.ask.is_plain:
            return text.encode() + b"\n"
        return to_json({"text": text, "usage": self._usage()})

    def closing(self) -> list[bytes]:
        text = self.answer.generations[0].text
        done = {"type": "transcript.text.done", "text": text, "usage": self._usage()}
        return [to_event(done)]

    def _frame(self, choice: int) -> tuple[str, str]:
        return split_at_mark(to_event({"type": "transcript.text.delta", "delta": MARK}))

    def _usage(self) -> dict[str, Any]:
        heard, said = self.answer.prompt_tokens, self.answer.completion_tokens
        return {
            "type": "tokens",
            "input_tokens": heard,
            "output_tokens": said,
            "total_tokens": heard + said,
        }
