"""How many tokens a reply says it used; of a stream, as its last bytes say.

Known are the ``usage`` objects of OpenAI's and Anthropic's APIs, and SGLang's
``meta_info``.
"""

from __future__ import annotations

import re

import msgspec

# Of a stream's end, what is kept to find its usage in. The last chunk of a chat is
# under 1 KiB; the closing event of /v1/responses repeats the whole answer, but has
# its usage near the end.
TAIL_BYTES = 8192

# An object with objects inside, one level deep: where an event began before the tail.
_USAGE_OBJECT = re.compile(
    rb'"(?:usage|meta_info)"\s*:\s*(\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\})'
)
_NONE = msgspec.Raw(b"null")


class Usage(msgspec.Struct):
    """Tokens of the prompt and of the answer; None for a count that is not told."""

    prompt: int | None = None
    completion: int | None = None

    def __bool__(self) -> bool:
        return self.prompt is not None or self.completion is not None


class _Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class _Reply(msgspec.Struct):
    usage: msgspec.Raw = _NONE
    meta_info: msgspec.Raw = _NONE
    # Of events: /v1/responses closes with its response, Anthropic opens with a message.
    response: msgspec.Raw = _NONE
    message: msgspec.Raw = _NONE


_counts = msgspec.json.Decoder(_Counts | None)
_reply = msgspec.json.Decoder(_Reply)
_replies = msgspec.json.Decoder(list[_Reply])


def read_usage(body: bytes) -> Usage | None:
    """The usage that a JSON reply, or one event's data, tells; None if it tells none.

    A reply to several prompts at once (/generate) is the sum of its items.
    """
    try:
        if body.lstrip()[:1] == b"[":
            found = [_of_reply(one) for one in _replies.decode(body)]
            return _sum([one for one in found if one])
        return _of_reply(_reply.decode(body))
    except (msgspec.DecodeError, RecursionError):
        return None


def usage_of_tail(tail: bytes) -> Usage | None:
    """The usage that the last bytes of an event stream tell.

    Looked for from the end on, so that few events are parsed. A count that a later
    event leaves out is taken from an earlier one.
    """
    usage = Usage()
    lines = tail.split(b"\n")
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if b'"usage"' not in line and b'"meta_info"' not in line:
            continue
        found = read_usage(line[5:]) if line.startswith(b"data:") else None
        if found is None and index == 0:
            found = _of_cut_line(line)
        if found is not None:
            usage.prompt = found.prompt if usage.prompt is None else usage.prompt
            if usage.completion is None:
                usage.completion = found.completion
            if usage.prompt is not None and usage.completion is not None:
                break
    return usage or None


def _of_reply(reply: _Reply) -> Usage | None:
    for raw in (reply.usage, reply.meta_info):
        found = _of_object(bytes(raw))
        if found is not None:
            return found
    for inner in (reply.response, reply.message):
        if inner is not _NONE:
            try:
                return _of_object(bytes(_reply.decode(inner).usage))
            except msgspec.DecodeError:
                pass  # a text, or something else of that name
    return None


def _of_object(raw: bytes) -> Usage | None:
    try:
        counts = _counts.decode(raw)
    except msgspec.DecodeError:
        return None
    if counts is None:
        return None
    prompt, completion = counts.prompt_tokens, counts.completion_tokens
    found = Usage(
        counts.input_tokens if prompt is None else prompt,
        counts.output_tokens if completion is None else completion,
    )
    return found or None


def _of_cut_line(line: bytes) -> Usage | None:
    """The last usage object of an event whose beginning is not there.

    Not one inside a text: there its quotes have backslashes.
    """
    for raw in reversed(_USAGE_OBJECT.findall(line)):
        found = _of_object(raw)
        if found is not None:
            return found
    return None


def _sum(found: list[Usage]) -> Usage | None:
    if not found:
        return None
    return Usage(
        sum(one.prompt or 0 for one in found), sum(one.completion or 0 for one in found)
    )
