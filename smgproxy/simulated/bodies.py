"""What the JSON bodies of the generating routes ask for.

Reads only the fields that change an answer and ignores the others, as an engine
ignores fields that it does not know. A body that cannot be answered is a
`BadAsk`, whose text the client sees.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec

from smgproxy.simulated.engine import Limits, Prompt, digest, digest_ids
from smgproxy.simulated.outputs import Format, Output, Tool, output_of

MAX_CHOICES = 64
_SGLANG_DEFAULT_NEW_TOKENS = 128

TokenIds = list[int]
# One prompt as text or ids, or several: msgspec wants one list type per union.
PromptField = str | list[str | int | TokenIds]
StopField = str | list[str] | None


class BadAsk(ValueError):
    """A body that an engine refuses with 400; the text is for the client."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to generate, whatever dialect it came in."""

    model: str
    prompts: tuple[Prompt, ...]
    choices: int
    limits: Limits
    is_stream: bool
    wants_usage: bool = False
    rid: str | None = None
    is_batch: bool = False
    is_plain: bool = False
    # Chat only: what is said in place of words, and how many alternatives to each
    # token are told; None = no log probabilities at all.
    output: Output | None = None
    top_logprobs: int | None = None


class Part(msgspec.Struct):
    """A piece of a message; only text counts."""

    text: str | None = None


class Message(msgspec.Struct):
    """One turn of a conversation."""

    role: str
    content: str | list[Part] | None = None


class StreamOptions(msgspec.Struct):
    """The part of `stream_options` that is honoured."""

    include_usage: bool | None = None


class Sampling(msgspec.Struct, kw_only=True):
    """The fields that chat and completions share."""

    model: str | None = None
    max_tokens: int | None = None
    n: int | None = None
    stop: StopField = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    ignore_eos: bool | None = None


class ChatBody(Sampling, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: list[Message]
    max_completion_tokens: int | None = None
    tools: list[Tool] | None = None
    tool_choice: Any = None
    response_format: Format | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None


class CompletionBody(Sampling, kw_only=True):
    """`POST /v1/completions`."""

    prompt: PromptField


class MessagesBody(msgspec.Struct, kw_only=True):
    """`POST /v1/messages`."""

    messages: list[Message]
    max_tokens: int
    model: str | None = None
    system: str | list[Part] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None


class SamplingParams(msgspec.Struct):
    """SGLang's `sampling_params`."""

    max_new_tokens: int | None = None
    n: int | None = None
    stop: StopField = None
    ignore_eos: bool | None = None


class GenerateBody(msgspec.Struct, kw_only=True):
    """`POST /generate`."""

    text: str | list[str] | None = None
    input_ids: list[int | TokenIds] | None = None
    model: str | None = None
    rid: str | list[str] | None = None
    sampling_params: SamplingParams | None = None
    stream: bool | None = None


Body = TypeVar("Body")


def decode(body: bytes | bytearray, shape: type[Body]) -> Body:
    """Read a body into its shape, or say what is wrong with it and where."""
    try:
        return msgspec.json.decode(body, type=shape)
    except msgspec.MsgspecError as error:
        raise BadAsk(f"Invalid request body: {error}") from None


def read_chat(body: bytes | bytearray, served_model: str) -> Ask:
    """Read a chat request."""
    chat = decode(body, ChatBody)
    limit, field = chat.max_tokens, "max_tokens"
    if chat.max_completion_tokens is not None:
        limit, field = chat.max_completion_tokens, "max_completion_tokens"
    prompt = _conversation(chat.messages)
    ask = _sampled(chat, served_model, (prompt,), _at_least_one(limit, field))
    return replace(
        ask,
        output=output_of(chat.tools, chat.tool_choice, chat.response_format),
        top_logprobs=(chat.top_logprobs or 0) if chat.logprobs else None,
    )


def read_completion(body: bytes | bytearray, served_model: str) -> Ask:
    """Read a text completion request."""
    completion = decode(body, CompletionBody)
    prompts = read_prompts(completion.prompt, "prompt")
    limit = _at_least_one(completion.max_tokens, "max_tokens")
    return _sampled(completion, served_model, prompts, limit)


def read_messages(body: bytes | bytearray, served_model: str) -> Ask:
    """Read a request in Anthropic's dialect."""
    asked = decode(body, MessagesBody)
    turns = asked.messages
    if turns and asked.system is not None:
        turns = [Message("system", asked.system), *turns]
    limit = _at_least_one(asked.max_tokens, "max_tokens")
    return Ask(
        model=asked.model or served_model,
        prompts=(_conversation(turns),),
        choices=1,
        limits=Limits(limit, tuple(asked.stop_sequences or ())),
        is_stream=bool(asked.stream),
    )


def read_generate(body: bytes | bytearray, served_model: str) -> Ask:
    """Read a request in SGLang's own dialect."""
    asked = decode(body, GenerateBody)
    prompt = asked.input_ids if asked.text is None else asked.text
    if prompt is None:
        raise BadAsk("Either text or input_ids should be provided.")
    # Every member of the narrower unions is a member of the wider one.
    prompts = read_prompts(prompt if isinstance(prompt, str) else list(prompt), "text")
    params = asked.sampling_params or SamplingParams()
    choices = _choices(params.n, len(prompts))
    limit = params.max_new_tokens
    if limit is None:
        limit = _SGLANG_DEFAULT_NEW_TOKENS
    return Ask(
        model=asked.model or served_model,
        prompts=prompts,
        choices=choices,
        limits=Limits(
            _at_least_one(limit, "max_new_tokens"),
            _stops(params.stop),
            bool(params.ignore_eos),
        ),
        is_stream=bool(asked.stream),
        rid=asked.rid if isinstance(asked.rid, str) else None,
        is_batch=choices > 1 or _is_several(prompt),
    )


def read_prompts(field: PromptField, name: str) -> tuple[Prompt, ...]:
    """Tell one prompt from several, and text from ids."""
    if isinstance(field, str):
        return (digest((field,)),)
    if not field:
        raise BadAsk(f"{name} must not be empty")
    ids = [item for item in field if isinstance(item, int)]
    if len(ids) == len(field):
        return (digest_ids(ids),)
    if ids:
        raise BadAsk(f"{name} must not mix token ids with other prompts")
    if len(field) > MAX_CHOICES:
        raise BadAsk(f"{name} may hold at most {MAX_CHOICES} prompts")
    return tuple(
        digest((item,)) if isinstance(item, str) else digest_ids(item)
        for item in field
        if not isinstance(item, int)
    )


def _sampled(
    body: Sampling, served_model: str, prompts: tuple[Prompt, ...], limit: int | None
) -> Ask:
    options = body.stream_options
    return Ask(
        model=body.model or served_model,
        prompts=prompts,
        choices=_choices(body.n, len(prompts)),
        limits=Limits(limit, _stops(body.stop), bool(body.ignore_eos)),
        is_stream=bool(body.stream),
        wants_usage=options is not None and bool(options.include_usage),
    )


def _conversation(messages: list[Message]) -> Prompt:
    if not messages:
        raise BadAsk("messages must not be empty")
    return digest(_spoken(messages))


def _spoken(messages: list[Message]) -> Iterator[str]:
    for message in messages:
        yield f"{message.role}: "
        if isinstance(message.content, str):
            yield message.content
        else:
            for part in message.content or ():
                yield part.text or ""
        yield "\n"


def _is_several(prompt: str | list[str] | list[int | TokenIds]) -> bool:
    return not isinstance(prompt, str) and not isinstance(prompt[0], int)


def _stops(stop: StopField) -> tuple[str, ...]:
    if isinstance(stop, str):
        return (stop,)
    return tuple(stop or ())


def _choices(n: int | None, prompts: int) -> int:
    choices = 1 if n is None else n
    if choices < 1 or choices * prompts > MAX_CHOICES:
        raise BadAsk(f"n must be at least 1, and give at most {MAX_CHOICES} choices")
    return choices


def _at_least_one(limit: int | None, field: str) -> int | None:
    if limit is not None and limit < 1:
        raise BadAsk(f"{field} must be at least 1, got {limit}.")
    return limit
