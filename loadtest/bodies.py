"""What reading a body costs, without any socket: `python -m loadtest.bodies`.

For a usual body the CPU of reading it; for one of a megabyte the longest stop of the
event loop, and the CPU in all. Prints each figure beside its budget; exits 1 when one
is missed. Each is CPU time and the best of some runs, so that a busy machine does not
decide; one whose other programs share its cores' caches still shows twice as much.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from loadtest.picks import Report
from smgproxy.api.bodies import BodyReader, Call
from smgproxy.api.endpoints import INFERENCE
from smgproxy.api.prompt_size import prompt_bytes
from smgproxy.api.schema import is_light
from smgproxy.core.errors import GatewayError
from smgproxy.core.message import RequestHead

SMALL_US, MEDIUM_US = 6.0, 60.0
STOP_MS = 10.0
SIZE = 1_000_000
RUNS = 5

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_ENDPOINTS = {one.path: one for one in INFERENCE}
_READER = BodyReader({"nick": "m"})
_USER = '{"role":"user","content":"a"}'


class Case:
    """A body and the route it is sent to."""

    def __init__(self, path: str, body: str) -> None:
        self.endpoint = _ENDPOINTS[path]
        self.body = body.encode()
        self.head = RequestHead(
            "POST", path, "", [(b"content-type", b"application/json")]
        )

    def read(self) -> Call:
        """Read it in one go."""
        return _READER.read(self.head, self.endpoint, self.body)

    def stops(self) -> Iterator[float]:
        """Read it as a request's is, with all that is asked of it; seconds a stop."""
        began = time.thread_time()
        call: Call | None = None
        try:
            if is_light(self.body):
                call = self.read()
            else:
                steps = _READER.steps(self.head, self.endpoint, self.body)
                while call is None:
                    try:
                        next(steps)
                    except StopIteration as done:
                        call = done.value
                    else:
                        ended = time.thread_time()
                        yield ended - began
                        began = time.thread_time()
        except GatewayError:
            pass  # that, too, is to be found out in time
        yield time.thread_time() - began
        asked: list[Callable[[], object]] = []
        if call is not None:
            asked = [call.text, call.token_ids, call.rid]
            asked.append(lambda: prompt_bytes(self.body))
            if self.endpoint.translate is not None:
                asked.append(partial(self._translate, call))
        for ask in asked:
            began = time.thread_time()
            ask()
            yield time.thread_time() - began

    def _translate(self, call: Call) -> None:
        assert self.endpoint.translate is not None
        with suppress(GatewayError):
            self.endpoint.translate("sglang", call.request, call.body)


def filled(item: str, separator: str = ",") -> str:
    """So many of an item that they make up a megabyte."""
    return separator.join([item] * (SIZE // (len(item) + len(separator))))


def numbered(item: str) -> str:
    """The same, all different: ``#`` stands for a number."""
    count = SIZE // (len(item) + 5)
    return ",".join([item.replace("#", str(number)) for number in range(count)])


def chat(messages: str = _USER, more: str = "", model: str = "m") -> Case:
    """A chat."""
    return Case(CHAT, f'{{"model":"{model}","messages":[{messages}]{more}}}')


def usual() -> Iterator[tuple[str, Case]]:
    """Megabytes as clients send them."""
    image = "data:image/png;base64," + "A" * (SIZE // 4)
    parts: list[Any] = [{"type": "text", "text": "what?"}]
    parts += [{"type": "image_url", "image_url": {"url": image}}] * 4
    shown = {"model": "m", "messages": [{"role": "user", "content": parts}]}
    yield "one text", chat('{"role":"user","content":"%s"}' % filled("word", " "))
    yield "one text, not ASCII", chat(
        '{"role":"user","content":"%s"}' % ("\u6c49\u5b57" * (SIZE // 6))
    )
    yield "one text, code", chat(
        '{"role":"user","content":"%s"}' % filled('x[i] = {\\"a\\": f(b, c)}', "\\n")
    )
    yield "images in base64", Case(CHAT, json.dumps(shown))
    yield "a long conversation", chat(
        ",".join(
            '{"role":"%s","content":"%s"}' % (role, "so many words " * 30)
            for role in ("user", "assistant") * (SIZE // 1000)
        )
    )
    yield "token ids", Case("/generate", f'{{"input_ids":[{filled("12345")}]}}')


def adversarial() -> Iterator[tuple[str, Case]]:
    """Megabytes that were made to cost."""
    function = '{"type":"function","function":{"name":"a"}}'
    call = '{"id":"a","function":{"name":"a","arguments":"{}"}}'
    yield "messages", chat(filled(_USER))
    yield "messages, an alias", chat(filled(_USER), model="nick")
    for model in ("kimi-k3", "MiniMax-M2", "glm-5.3", "deepseek-v4-pro"):
        yield f"messages, {model}", chat(filled(_USER), model=model)
    yield "messages, spaced", chat(filled('{"role" : "user","content" : "a"}'))
    yield "messages without content", chat(filled('{"role":"system"}'))
    yield "root messages", chat(
        filled('{"role":"root","content":"a"}'), model="minimax"
    )
    yield "messages with tools", chat(
        filled('{"role":"system","content":"a","tools":[]}')
    )
    yield "keys", chat(more="," + numbered('"k#":0'))
    yield "keys, an alias", chat(more="," + numbered('"k#":0'), model="nick")
    yield "keys with space, an alias", chat(
        more="," + numbered('"k#" :0'), model="nick"
    )
    yield "keys, glm", chat(more="," + numbered('"k#":0'), model="glm-4.6")
    yield "keys, all the same", chat(more="," + filled('"":0'))
    yield "keys in a message", chat(
        '{"role":"user","content":"a",%s}' % numbered('"k#":0')
    )
    yield "keys in a message with tools", chat(
        '{"role":"user","content":"a","tools":[],%s}' % numbered('"k#":0')
    )
    yield "keys unread", chat(more=',"x":{%s}' % numbered('"k#":0'))
    yield "a repeated key, last", chat(more="," + numbered('"k#":0') + ',"model":"m"')
    yield "numbers unread", chat(more=f',"x":[{filled("0")}]')
    yield "numbers as content", chat('{"role":"user","content":[%s]}' % filled("0"))
    yield "numbers as ids", Case("/generate", f'{{"input_ids":[{filled("0")}]}}')
    yield "numbers as texts", Case(
        "/v1/embeddings", f'{{"model":"m","input":[{filled("0")}]}}'
    )
    yield "stop ids", chat(more=f',"stop_token_ids":[{filled("0")}]')
    yield "biases", chat(more=',"logit_bias":{%s}' % numbered('"#":0'))
    yield "template variables", chat(
        more=',"chat_template_kwargs":{%s}' % numbered('"k#":0')
    )
    yield "template variables, deepseek", chat(
        more=',"chat_template_kwargs":{%s}' % numbered('"k#":0'),
        model="deepseek-v4-pro",
    )
    parts = filled('{"type":"text","text":"a"}')
    yield "parts", chat('{"role":"user","content":[%s]}' % parts)
    yield "parts, glm", chat('{"role":"user","content":[%s]}' % parts, model="glm-4")
    yield "parts of no text", chat(
        '{"role":"user","content":[%s]}' % filled('{"type":"x"}')
    )
    yield "parts of nothing", chat('{"role":"user","content":[%s]}' % filled("{}"))
    yield "tools", chat(more=f',"tools":[{filled(function)}]')
    yield "tool calls", chat('{"role":"assistant","tool_calls":[%s]}' % filled(call))
    yield "tool calls, MiniMax", chat(
        '{"role":"assistant","tool_calls":[%s]}'
        % numbered('{"id":"#","function":{"name":"a","arguments":"{}"}}'),
        model="minimax",
    )
    yield "nesting", chat(more=f',"x":[{filled("[" * 100 + "]" * 100)}]')
    yield "nesting too deep", chat(more=',"x":' + "[" * (SIZE // 2) + "]" * (SIZE // 2))
    yield "brackets in texts", chat(filled('{"role":"user","content":"["}'))
    yield "backslashes", chat('{"role":"user","content":"%s"}' % filled("\\\\", ""))
    yield "a range missed", chat(filled(_USER), ',"temperature":3')
    yield "a type missed, last", chat(filled(_USER) + ',{"role":"user","content":1}')
    yield "prompts", Case(COMPLETIONS, '{"model":"m","prompt":[%s]}' % filled('"a"'))
    yield "documents", Case(
        "/v1/rerank", '{"query":"q","documents":[%s]}' % filled('"a"')
    )
    yield "items", Case(
        "/v1/responses", '{"model":"m","input":[%s]}' % filled('{"type":""}')
    )
    yield "Anthropic's messages", Case(
        "/v1/messages",
        '{"model":"m","max_tokens":1,"messages":[%s]}' % filled(_USER),
    )
    part = '{"type":"input_text","text":"a"}'
    yield "evidence", Case(
        "/v1/decisions",
        '{"model":"m","input":[{"role":"user","content":[%s]}],"questions":[]}'
        % filled(part),
    )
    question = '{"type":"predicate","instructions":"a"}'
    yield "questions", Case(
        "/v1/decisions",
        f'{{"model":"m","input":"a","questions":[{filled(question)}]}}',
    )


def cpu_us(case: Case, rounds: int) -> float:
    """Microseconds that reading it takes, the best of some series."""
    best = float("inf")
    for _ in range(RUNS):
        began = time.thread_time()
        for _ in range(rounds):
            case.read()
        best = min(best, time.thread_time() - began)
    return 1e6 * best / rounds


def longest_stop(case: Case) -> tuple[float, float]:
    """The longest stop and the sum of all, in milliseconds; the best of some runs."""
    runs = [list(case.stops()) for _ in range(RUNS)]
    return 1e3 * min(map(max, runs)), 1e3 * min(map(sum, runs))


def conversation(turns: int, length: int) -> Case:
    """A chat of so many messages of so many characters."""
    words = ("Tell me: what would you do? " * (1 + length // 28))[:length]
    roles = ("system", *("user", "assistant") * turns)[:turns]
    messages = [{"role": role, "content": words} for role in roles]
    body = {"model": "meta-llama/Llama-3.1-8B-Instruct", "messages": messages}
    return Case(CHAT, json.dumps({**body, "temperature": 0.7, "max_tokens": 100}))


def main() -> int:
    """Measure everything."""
    report = Report()
    gc.freeze()
    small, medium = conversation(2, 150), conversation(40, 450)
    report.add(f"chat of {len(small.body)} bytes", cpu_us(small, 20000), SMALL_US, "us")
    report.add(
        f"chat of {len(medium.body)} bytes", cpu_us(medium, 2000), MEDIUM_US, "us"
    )
    for kind, cases in (("1 MB", usual()), ("1 MB made to cost", adversarial())):
        for name, case in cases:
            stop, total = longest_stop(case)
            what = f"{kind}, {name}"
            report.add(f"{what} ({total:.0f} ms)", stop, STOP_MS, "ms")
    return 0 if report.is_within else 1


if __name__ == "__main__":
    sys.exit(main())
