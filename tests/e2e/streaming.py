"""What the tests of event streams share: requests, events, and one whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Answer, post, streaming
from tests.fakes.worker import Script

EVENTS = [b'data: {"i":%d}\n\n' % i for i in range(5)] + [b"data: [DONE]\n\n"]
DONE = b"data: [DONE]\n\n"
# Every line end of the format, a BOM, a NUL, bytes that are no UTF-8, no last blank.
ODD = b"\xef\xbb\xbf: hi\r\n\r\ndata: a\rdata:b\r\rid: 1\n\ndata: \x00\xff\xfe\n\ndata"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
BROKEN = (
    b'data: {"error":{"message":"Stream error: connection closed",'
    b'"type":"stream_error"}}\n\n' + DONE
)


def stream(path: str = "/v1/chat/completions") -> bytes:
    """A request for an event stream."""
    return post(streaming(path), path)


def ask(script: Script, request: bytes = b"", **rooms: object) -> Answer:
    """What one client gets of a stream."""
    answers: list[Answer] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answers.append(await client.ask(request or stream()))
        client.close()

    play(scene, script, **rooms)
    return answers[0]


async def settled(value: Callable[[], int], secs: float = 0.3) -> int:
    """Wait until a number has stayed the same for a while."""
    loop = asyncio.get_running_loop()
    last, since = value(), loop.time()

    def is_settled() -> bool:
        nonlocal last, since
        if value() != last:
            last, since = value(), loop.time()
        return loop.time() - since >= secs

    await eventually(is_settled)
    return last
