"""Scenes with a worker that speaks HTTP/2, known to do so."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer, Client, post
from tests.fakes.http2_worker import H2Worker
from tests.fakes.worker import say_ok

MODEL = "multiplexed"
BODY = b'{"model":"multiplexed","messages":[{"role":"user","content":"hi"}]}'
STREAMED = (
    b'{"model":"multiplexed","stream":true,"messages":[{"role":"user","content":"hi"}]}'
)
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL = 0, 2, 7, 8

Scene = Callable[[Stage, H2Worker], Awaitable[None]]


def play_http2(
    scene: Scene,
    script: Any = say_ok,
    pool: dict[str, Any] | None = None,
    **rooms: Any,
) -> None:
    """Run a scene with a worker that speaks HTTP/2 and is known to."""

    async def whole(stage: Stage) -> None:
        fake = H2Worker(script)
        fake.model = MODEL
        await fake.start()
        settings = dataclasses.replace(HttpPoolSettings(), **(pool or {}))
        stage.register(fake, settings).http2 = True
        try:
            await scene(stage, fake)
        finally:
            await fake.stop()

    play(whole, **rooms)


async def ask(stage: Stage, body: bytes = BODY) -> Answer:
    """One request, over a connection of its own."""
    return await stage.ask(post(body))


async def ask_all(stage: Stage, count: int) -> list[Answer]:
    """Requests at the same time."""
    return list(await asyncio.gather(*[ask(stage) for _ in range(count)]))


async def still(count: Callable[[], int]) -> int:
    """Wait until a number has not changed for a while."""
    before = -1
    while before != count():
        before = count()
        await asyncio.sleep(0.1)
    return before


async def begin_stream(stage: Stage) -> Client:
    """A client whose stream has begun."""
    client = await stage.client()
    await client.send(post(STREAMED))
    await client.head()
    return client
