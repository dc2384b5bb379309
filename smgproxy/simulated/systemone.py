"""System One, SGLang's own API for decisions: odds for each question about a text.

Pure: a body in, a body out, or a `BadAsk`.
"""

from typing import Any

import msgspec

from smgproxy.simulated.bodies import BadAsk, decode
from smgproxy.simulated.engine import classify, digest
from smgproxy.simulated.scoring import Scored

MAX_CHOICES = 255
MAX_LEVELS = 10


class Entry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An option or a level."""

    value: str | bool | None = None
    label: str | None = None
    description: str | None = None


class Noul(msgspec.Struct, tag_field="type", tag="noul", forbid_unknown_fields=True):
    """Is it so?"""

    instructions: str


class Choice(
    msgspec.Struct, tag_field="type", tag="choice", forbid_unknown_fields=True
):
    """Which of these is it?"""

    instructions: str
    criteria: dict[str, Entry]


class Score(msgspec.Struct, tag_field="type", tag="score", forbid_unknown_fields=True):
    """How much is it?"""

    instructions: str
    criteria: list[Entry]


class SystemOneBody(msgspec.Struct, kw_only=True):
    """`POST /v1/systemone`."""

    state: msgspec.Raw
    questions: dict[str, Noul | Choice | Score]
    model: str | None = None


def systemone(body: bytes | bytearray, served_model: str, ident: str) -> Scored:
    """Answer each question under its own key; the same text gets the same odds."""
    asked = decode(body, SystemOneBody)
    if not asked.questions:
        raise BadAsk("questions must not be empty")
    state = bytes(asked.state).decode()
    answers = {key: _answer(state, one) for key, one in asked.questions.items()}
    sizes = [
        digest((state, one.instructions)).tokens for one in asked.questions.values()
    ]
    usage = {"input_tokens": sum(sizes), "output_tokens": 0}
    model = asked.model or served_model
    return Scored({"model": model, "answers": answers, "usage": usage}, sum(sizes))


def _answer(state: str, question: Noul | Choice | Score) -> dict[str, Any]:
    prompt = digest((state, question.instructions))
    if isinstance(question, Noul):
        return {"type": "noul", "noul": classify(prompt, 2)[0]}
    count = len(question.criteria)
    most = MAX_CHOICES if isinstance(question, Choice) else MAX_LEVELS
    if not 1 <= count <= most:
        raise BadAsk(f"criteria must have 1 to {most} entries")
    odds = classify(prompt, count)
    # How far the top stands above odds that are all alike.
    confidence = 1.0 if count == 1 else (count * max(odds) - 1) / (count - 1)
    if isinstance(question, Choice):
        keys = list(question.criteria)
        return {
            "type": "choice",
            "choice": keys[odds.index(max(odds))],
            "confidence": confidence,
            "probabilities": dict(zip(keys, odds, strict=True)),
        }
    return {
        "type": "score",
        "score": sum(n * p for n, p in enumerate(odds)),
        "confidence": confidence,
        "probabilities": {str(n): p for n, p in enumerate(odds)},
    }
