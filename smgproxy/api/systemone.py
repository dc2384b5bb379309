"""Decisions in the words of SGLang's own API, System One, and its answers back again.

Pure. Keys towards the worker are positions (``q0``, ``o0``): names and values are the
client's, and may be given twice. As SGLang 0.5.21 serves it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta

from smgproxy.api.decisions import (
    Choice,
    DecisionsRequest,
    ImagePart,
    Level,
    Message,
    Option,
    Predicate,
    Question,
    Score,
    TextPart,
)
from smgproxy.api.outline import outline_of, raw_of
from smgproxy.api.replies import reason_phrase
from smgproxy.core.errors import GatewayError, UpstreamError
from smgproxy.wire.json import dumps

PATH = b"/v1/systemone"
MAX_CHOICES = 255
MAX_LEVELS = 10
# More parts, questions and answers than that would stop the event loop for more than
# ten milliseconds; each question is a prompt of its own.
MAX_ENTRIES = 8192
# How far the sums of doubles may be off, and how far that itself may be rounded.
TOLERANCE = 1e-6 + 1e-12

_encode = msgspec.json.encode
_ERROR_CODE = "upstream_decisions_error"


class UnsupportedDecisions(GatewayError):
    """A worker of SGLang was chosen, and its Decisions cannot do what is asked."""

    status = 400
    code = "unsupported_decisions_request"


class InvalidDecisionsResponse(UpstreamError):
    """SGLang reported success with what is no valid answer to the questions."""

    status = 502
    code = "invalid_decisions_response"

    def __init__(self, why: str) -> None:
        super().__init__(f"The worker's Decisions are not valid: {why[:300]}")


# -- what is asked ------------------------------------------------------------------

_KNOWN: dict[type, frozenset[str]] = {
    kind: frozenset(kind.__struct_fields__)
    for kind in (Message, TextPart, ImagePart, Option, Level, Predicate, Choice, Score)
}
_KNOWN[DecisionsRequest] = frozenset(
    ("model", "input", "questions", "safety_identifier")
)


def translate(runtime: str, request: DecisionsRequest, body: bytes) -> SystemOne | None:
    """What a worker is asked instead of ``body``; None when it takes that itself.

    ``body`` is what ``request`` was read from, aliases resolved. Raises
    UnsupportedDecisions.
    """
    if runtime != "sglang":
        return None
    if _entries_of(request) > MAX_ENTRIES:
        raise UnsupportedDecisions(
            f"the request: has more than {MAX_ENTRIES} parts, questions and answers"
        )
    _refuse_unsupported(request)
    _refuse_unknown(msgspec.json.decode(body), request, "")
    asked = {f"q{n}": _asked(one) for n, one in enumerate(request.questions)}
    outline = outline_of(body)
    # The canonical name stands in the body alone.
    model, state = bytes(raw_of(outline, "model")), bytes(raw_of(outline, "input"))
    pieces = (model, state, _encode(asked))
    return SystemOne(b'{"model":%b,"state":%b,"questions":%b}' % pieces, request)


def _refuse_unsupported(request: DecisionsRequest) -> None:
    for place, part in request.parts():
        if isinstance(part, ImagePart):
            raise UnsupportedDecisions(
                f"{place}: Decisions of SGLang 0.5.21 take text only, no input_image"
            )
    if not any(text.strip() for text in request.texts()):
        raise UnsupportedDecisions("input: has no text to decide on")
    if not request.questions:
        raise UnsupportedDecisions("questions: must not be empty")
    for number, question in enumerate(request.questions):
        place = f"questions[{number}]"
        if not question.instructions.strip():
            raise UnsupportedDecisions(f"{place}.instructions: must not be blank")
        if isinstance(question, Choice):
            _hold_count(f"{place}.choices", question.choices, MAX_CHOICES)
        elif isinstance(question, Score):
            _hold_count(f"{place}.levels", question.levels, MAX_LEVELS)


def _entries_of(request: DecisionsRequest) -> int:
    """How many pieces there are to translate."""
    count = len(request.questions) + request.count_parts()
    for question in request.questions:
        if isinstance(question, Choice):
            count += len(question.choices)
        elif isinstance(question, Score):
            count += len(question.levels)
    return count


def _hold_count(place: str, entries: Sequence[object], most: int) -> None:
    if not 1 <= len(entries) <= most:
        raise UnsupportedDecisions(
            f"{place}: must have 1 to {most} entries, not {len(entries)}"
        )


def _refuse_unknown(value: Any, read: object, place: str) -> None:
    """Refuse fields that are not modelled; ``read`` is what ``value`` was read as."""
    if isinstance(read, list):
        for index, (inner, one) in enumerate(zip(value, read, strict=True)):
            _refuse_unknown(inner, one, f"{place}[{index}]")
    elif isinstance(read, msgspec.Struct):
        known = _KNOWN[type(read)]
        for name, inner in value.items():
            if name in known:
                inside = f"{place}.{name}" if place else name
                _refuse_unknown(inner, getattr(read, name), inside)
            elif name != "type" or type(read).__struct_config__.tag is None:
                where = place or "the request"
                raise UnsupportedDecisions(
                    f"{name[:100]!r} in {where} is unknown to Decisions of SGLang"
                )


def _asked(question: Question) -> dict[str, Any]:
    """One question; names are not sent."""
    if isinstance(question, Predicate):
        return {"type": "noul", "instructions": question.instructions}
    asked: dict[str, Any] = {
        "type": "choice" if isinstance(question, Choice) else "score",
        "instructions": question.instructions,
    }
    if isinstance(question, Choice):
        # A description that was not given is not written either.
        asked["criteria"] = {f"o{n}": one for n, one in enumerate(question.choices)}
    else:
        asked["criteria"] = question.levels
    return asked


# -- what is answered ---------------------------------------------------------------

_Probability = Annotated[float, Meta(ge=0, le=1)]


class _Noul(msgspec.Struct, tag_field="type", tag="noul"):
    noul: _Probability


class _Chosen(msgspec.Struct, tag_field="type", tag="choice"):
    choice: str
    confidence: _Probability
    probabilities: dict[str, _Probability]


class _Scored(msgspec.Struct, tag_field="type", tag="score"):
    score: float
    confidence: _Probability
    probabilities: dict[str, _Probability]


_Answer = _Noul | _Chosen | _Scored


class _Usage(msgspec.Struct):
    input_tokens: Annotated[int, Meta(ge=0)]
    output_tokens: Annotated[int, Meta(ge=0, le=0)]


class _Reply(msgspec.Struct):
    model: str
    answers: dict[str, _Answer]
    usage: _Usage


_read_reply = msgspec.json.Decoder(_Reply).decode


class SystemOne:
    """A request to SGLang, and how its answer is read. ``body`` is what is sent."""

    __slots__ = ("body", "_questions")

    path = PATH

    def __init__(self, body: bytes, request: DecisionsRequest) -> None:
        self.body = body
        self._questions = request.questions

    def answer(self, status: int, body: bytes) -> bytes:
        """The client's body for a worker's. Raises InvalidDecisionsResponse."""
        if not 200 <= status < 300:
            return error_body(status, body)
        try:
            reply = _read_reply(body)
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidDecisionsResponse(str(error)) from None
        answers = self._answers(reply.answers)
        told = {"model": reply.model, "answers": answers, "usage": _usage(reply.usage)}
        return _encode(told)

    def _answers(self, given: dict[str, _Answer]) -> list[dict[str, Any]]:
        questions = self._questions
        if len(given) != len(questions):
            raise InvalidDecisionsResponse(
                f"{len(given)} answers to {len(questions)} questions"
            )
        answers = []
        for number, question in enumerate(questions):
            key = f"q{number}"
            answer = given.get(key)
            if isinstance(question, Predicate) and isinstance(answer, _Noul):
                told: dict[str, Any] = {"probability": answer.noul}
            elif isinstance(question, Choice) and isinstance(answer, _Chosen):
                told = _told_choice(key, question.choices, answer)
            elif isinstance(question, Score) and isinstance(answer, _Scored):
                told = _told_score(key, question.levels, answer)
            else:
                raise InvalidDecisionsResponse(f"{key} is not answered by its type")
            name = None if question.name is UNSET else question.name
            kind = type(question).__struct_config__.tag
            answers.append({"type": kind, "name": name, **told})
        return answers


def _told_choice(key: str, options: list[Option], answer: _Chosen) -> dict[str, Any]:
    keys = [f"o{n}" for n in range(len(options))]
    odds = _distribution(key, keys, answer.probabilities)
    if answer.choice not in answer.probabilities:
        raise InvalidDecisionsResponse(f"{key}: the choice is not one of the options")
    if answer.probabilities[answer.choice] < max(odds):
        raise InvalidDecisionsResponse(f"{key}: the choice is not the most probable")
    values = [option.value for option in options]
    return {
        "choice": values[keys.index(answer.choice)],
        "confidence": answer.confidence,
        "probabilities": [
            {"value": value, "probability": p}
            for value, p in zip(values, odds, strict=True)
        ],
    }


def _told_score(key: str, levels: list[Level], answer: _Scored) -> dict[str, Any]:
    keys = [str(n) for n in range(len(levels))]
    odds = _distribution(key, keys, answer.probabilities)
    expected = math.fsum(n * p for n, p in enumerate(odds))
    is_within = 0 <= answer.score <= len(levels) - 1
    if not is_within or abs(answer.score - expected) > TOLERANCE:
        raise InvalidDecisionsResponse(f"{key}: the score is not its levels' mean")
    return {
        "score": answer.score,
        "confidence": answer.confidence,
        "probabilities": [
            {"value": n, "label": level.label, "probability": p}
            for n, (level, p) in enumerate(zip(levels, odds, strict=True))
        ],
    }


def _distribution(key: str, keys: list[str], given: dict[str, float]) -> list[float]:
    """The probabilities in the request's order."""
    if given.keys() != set(keys):
        raise InvalidDecisionsResponse(f"{key}: other probabilities than were asked")
    odds = [given[one] for one in keys]
    if abs(math.fsum(odds) - 1) > TOLERANCE:
        raise InvalidDecisionsResponse(f"{key}: the probabilities do not add up to 1")
    return odds


def _usage(usage: _Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": 0,
        "total_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }


# -- what is refused ----------------------------------------------------------------


class _Failure(msgspec.Struct):
    error: Any = None
    detail: Any = UNSET


_read_failure = msgspec.json.Decoder(_Failure).decode


def error_body(status: int, body: bytes) -> bytes:
    """A worker's error as OpenAI's clients read it; one that is already is kept."""
    message = body.decode(errors="replace")
    try:
        failure = _read_failure(body)
    except (msgspec.DecodeError, RecursionError):
        failure = _Failure()
    if isinstance(failure.error, dict):
        return body
    if failure.detail is not UNSET:
        detail = failure.detail
        message = detail if isinstance(detail, str) else _encode(detail).decode()
    error = {
        "type": reason_phrase(status),
        "code": _ERROR_CODE,
        "message": message,
        "param": None,
    }
    return dumps({"error": error})
