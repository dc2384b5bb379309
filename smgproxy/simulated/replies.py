"""The answers of the generating routes, in the shape of each dialect.

A reply can be had whole, or as server-sent events: an opening, then a step per
token, then a closing. All text sent in the steps, joined, is the whole text.
"""

from typing import Any, ClassVar

import ujson

from smgproxy.simulated.bodies import Ask
from smgproxy.simulated.engine import Answer, Generation
from smgproxy.simulated.outputs import logprobs_of

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
# Where a token goes in an event.
MARK = "@@"
_DONE = b"data: [DONE]\n\n"


def to_json(value: object) -> bytes:
    """Write JSON as the engines do: no escaped slashes, text as UTF-8."""
    return ujson.dumps(value, ensure_ascii=False, escape_forward_slashes=False).encode()


def usage_of(answer: Answer) -> dict[str, int]:
    """OpenAI's usage object: prompts in UTF-8 bytes / 4, completions in words."""
    prompt, completion = answer.prompt_tokens, answer.completion_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


class Reply:
    """One answer in the making; the subclasses know a dialect each."""

    __slots__ = ("answer", "ask", "ident", "created", "steps", "_frames")

    id_prefix: ClassVar[str]

    def __init__(self, ask: Ask, answer: Answer, ident: str, created: int) -> None:
        self.ask = ask
        self.answer = answer
        self.ident = self.id_prefix + ident
        self.created = created
        self.steps = answer.steps
        self._frames: list[tuple[str, str]] = []

    @property
    def content_type(self) -> bytes:
        """What an answer is that is not streamed."""
        return JSON

    def whole(self) -> bytes:
        """The body of an answer that is not streamed."""
        raise NotImplementedError

    def opening(self) -> list[bytes]:
        """The events that come along with the first token."""
        return []

    def step(self, index: int) -> list[bytes]:
        """The events of one decoding step: one for each choice still going."""
        if not self._frames:
            choices = range(len(self.answer.generations))
            self._frames = [self._frame(choice) for choice in choices]
        return [
            (before + generation.tokens[index] + after).encode()
            for generation, (before, after) in zip(
                self.answer.generations, self._frames
            )
            if index < len(generation.tokens)
        ]

    def closing(self) -> list[bytes]:
        """The events that come right after the last token."""
        raise NotImplementedError

    def _frame(self, choice: int) -> tuple[str, str]:
        """What stands before and after a token in that choice's events."""
        raise NotImplementedError


def to_event(data: object, name: str = "") -> bytes:
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + to_json(data) + b"\n\n"


def split_at_mark(event: bytes) -> tuple[str, str]:
    # From the right: a client's model name may hold the mark too, but the text
    # comes after it in every dialect.
    before, _, after = event.decode().rpartition(MARK)
    return before, after


class _OpenAIReply(Reply):
    """What chat and completions share."""

    __slots__ = ()

    whole_object: ClassVar[str]
    chunk_object: ClassVar[str]

    def whole(self) -> bytes:
        choices = [
            self._choice(index, generation)
            for index, generation in enumerate(self.answer.generations)
        ]
        return to_json(
            self._envelope(self.whole_object, choices) | {"usage": self._usage()}
        )

    def closing(self) -> list[bytes]:
        events = [
            self._chunk(index, "", generation.finish_reason)
            for index, generation in enumerate(self.answer.generations)
        ]
        if self.ask.wants_usage:
            envelope = self._envelope(self.chunk_object, [])
            events.append(to_event(envelope | {"usage": self._usage()}))
        events.append(_DONE)
        return events

    def _frame(self, choice: int) -> tuple[str, str]:
        return split_at_mark(self._chunk(choice, MARK, None))

    def _usage(self) -> dict[str, int]:
        return usage_of(self.answer)

    def _envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        return {
            "id": self.ident,
            "object": kind,
            "created": self.created,
            "model": self.ask.model,
            "choices": choices,
        }

    def _chunk(self, index: int, text: str, finish_reason: str | None) -> bytes:
        raise NotImplementedError

    def _choice(self, index: int, generation: Generation) -> dict[str, Any]:
        raise NotImplementedError


class ChatReply(_OpenAIReply):
    """`/v1/chat/completions`."""

    __slots__ = ()

    id_prefix = "chatcmpl-"
    whole_object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def opening(self) -> list[bytes]:
        role: dict[str, Any] = {"role": "assistant", "content": ""}
        choices = range(len(self.answer.generations))
        if self._tool is not None:
            call = {"index": 0, **self._call(self._tool, "")}
            role |= {"content": None, "tool_calls": [call]}
        return [self._delta(index, role, None) for index in choices]

    def step(self, index: int) -> list[bytes]:
        if self.ask.output is None and self.ask.top_logprobs is None:
            return super().step(index)
        return [
            self._token(choice, generation.tokens[index])
            for choice, generation in enumerate(self.answer.generations)
            if index < len(generation.tokens)
        ]

    def _token(self, index: int, token: str) -> bytes:
        """The event of a token that is no plain word, or has its probability told."""
        if self._tool is None:
            return self._delta(index, {"content": token}, None, self._told((token,)))
        call = {"index": 0, "function": {"arguments": token}}
        return self._delta(index, {"tool_calls": [call]}, None)

    def _chunk(self, index: int, text: str, finish_reason: str | None) -> bytes:
        if finish_reason is not None:
            finish_reason = self._reason(finish_reason)
        return self._delta(index, {"content": text} if text else {}, finish_reason)

    def _delta(
        self,
        index: int,
        delta: dict[str, Any],
        finish_reason: str | None,
        logprobs: dict[str, Any] | None = None,
    ) -> bytes:
        choice = {
            "index": index,
            "delta": delta,
            "logprobs": logprobs,
            "finish_reason": finish_reason,
        }
        return to_event(self._envelope(self.chunk_object, [choice]))

    def _choice(self, index: int, generation: Generation) -> dict[str, Any]:
        text, tool = generation.text, self._tool
        calls = None if tool is None else [self._call(tool, text)]
        return {
            "index": index,
            "message": {
                "role": "assistant",
                "content": text if calls is None else None,
                "tool_calls": calls,
            },
            "logprobs": self._told(generation.tokens) if calls is None else None,
            "finish_reason": self._reason(generation.finish_reason),
        }

    @property
    def _tool(self) -> str | None:
        return None if self.ask.output is None else self.ask.output.tool

    def _reason(self, reason: str) -> str:
        return "tool_calls" if self._tool and reason == "stop" else reason

    def _call(self, tool: str, arguments: str) -> dict[str, Any]:
        function = {"name": tool, "arguments": arguments}
        ident = f"call_{self.ident.removeprefix(self.id_prefix)}"
        return {"id": ident, "type": "function", "function": function}

    def _told(self, tokens: tuple[str, ...]) -> dict[str, Any] | None:
        top = self.ask.top_logprobs
        return None if top is None else logprobs_of(tokens, top)


class CompletionReply(_OpenAIReply):
    """`/v1/completions`."""

    __slots__ = ()

    id_prefix = "cmpl-"
    whole_object = "text_completion"
    chunk_object = "text_completion"

    def _chunk(self, index: int, text: str, finish_reason: str | None) -> bytes:
        choice = {
            "index": index,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
        }
        return to_event(self._envelope(self.chunk_object, [choice]))

    def _choice(self, index: int, generation: Generation) -> dict[str, Any]:
        return {
            "index": index,
            "text": generation.text,
            "logprobs": None,
            "finish_reason": generation.finish_reason,
        }


class MessageReply(Reply):
    """`/v1/messages`: Anthropic's dialect, whose stream has no `[DONE]`."""

    __slots__ = ()

    id_prefix = "msg_"

    def whole(self) -> bytes:
        content = [{"type": "text", "text": self._only.text}]
        usage = self._usage(self.answer.completion_tokens)
        return to_json(self._message(content, usage) | self._ending())

    def opening(self) -> list[bytes]:
        message = self._message([], self._usage(0))
        message |= {"stop_reason": None, "stop_sequence": None}
        block = {"type": "text", "text": ""}
        return [
            self._named("message_start", message=message),
            self._named("content_block_start", index=0, content_block=block),
        ]

    def closing(self) -> list[bytes]:
        usage = {"output_tokens": self.answer.completion_tokens}
        return [
            self._named("content_block_stop", index=0),
            self._named("message_delta", delta=self._ending(), usage=usage),
            self._named("message_stop"),
        ]

    def _frame(self, choice: int) -> tuple[str, str]:
        delta = {"type": "text_delta", "text": MARK}
        event = self._named("content_block_delta", index=choice, delta=delta)
        return split_at_mark(event)

    @property
    def _only(self) -> Generation:
        return self.answer.generations[0]

    def _ending(self) -> dict[str, str | None]:
        stop = self._only.matched_stop
        reason = "max_tokens" if self._only.finish_reason == "length" else "end_turn"
        return {
            "stop_reason": "stop_sequence" if stop else reason,
            "stop_sequence": stop,
        }

    def _usage(self, output_tokens: int) -> dict[str, int]:
        return {
            "input_tokens": self.answer.prompt_tokens,
            "output_tokens": output_tokens,
        }

    def _message(self, content: list[Any], usage: dict[str, int]) -> dict[str, Any]:
        return {
            "id": self.ident,
            "type": "message",
            "role": "assistant",
            "model": self.ask.model,
            "content": content,
            "usage": usage,
        }

    @staticmethod
    def _named(name: str, **fields: object) -> bytes:
        return to_event({"type": name, **fields}, name)


class GenerateReply(Reply):
    """`/generate`: SGLang's dialect, whose events hold all text so far."""

    __slots__ = ()

    id_prefix = ""

    def whole(self) -> bytes:
        answers = [
            self._state(choice, len(generation.tokens))
            for choice, generation in enumerate(self.answer.generations)
        ]
        return to_json(answers if self.ask.is_batch else answers[0])

    def step(self, index: int) -> list[bytes]:
        return [
            to_event(self._state(choice, index + 1))
            for choice, generation in enumerate(self.answer.generations)
            if index < len(generation.tokens)
        ]

    def closing(self) -> list[bytes]:
        # A stop string at the very start leaves no step that could say so.
        empty = [
            to_event(self._state(choice, 0))
            for choice, generation in enumerate(self.answer.generations)
            if not generation.tokens
        ]
        return [*empty, _DONE]

    def _state(self, choice: int, count: int) -> dict[str, Any]:
        generation = self.answer.generations[choice]
        is_over = count == len(generation.tokens)
        prompt = self.ask.prompts[choice // self.ask.choices]
        state = {
            "text": "".join(generation.tokens[:count]),
            "meta_info": {
                "id": self.ask.rid or self.ident,
                "finish_reason": self._ending(generation) if is_over else None,
                "prompt_tokens": prompt.tokens,
                "completion_tokens": count,
                "cached_tokens": 0,
            },
        }
        return state | {"index": choice} if self.ask.is_batch else state

    @staticmethod
    def _ending(generation: Generation) -> dict[str, Any]:
        if generation.finish_reason == "length":
            return {"type": "length", "length": len(generation.tokens)}
        return {"type": "stop", "matched": generation.matched_stop}
