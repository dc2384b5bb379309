"""Many mixed requests with random aborts on both sides leave nothing behind."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.e2e.stage import Stage, play
from tests.fakes.client import STREAM, Client, post
from tests.fakes.worker import Connection, Received

REQUESTS = 20_000
CLIENTS = 50
GROWTH_BYTES = 8 * 1024 * 1024
PAGE = 4096
BODIES = (b'{"model":"m","x":"' + b"a" * size + b'"}' for size in (10, 3000, 200_000))
REQUEST_BYTES = (
    *(post(body) for body in BODIES),
    *(post(STREAM), post(STREAM), post(b"{bad"), post(path="/nope"), b"BAD\n\n"),
    b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Chaos:
    """Decides, always in the same way, who does what."""

    def __init__(self) -> None:
        self.dice = random.Random(20_000)
        self.left = REQUESTS
        self.sizes: list[int] = []

    async def work(self, connection: Connection, request: Received) -> None:
        dice = self.dice
        if request.body == STREAM:
            await connection.start_stream()
            for _ in range(dice.randrange(6)):
                await connection.chunk(b'data: {"x":1}\n\n')
                if dice.random() < 0.05:
                    connection.reset() if dice.random() < 0.5 else connection.close()
                    return
            await connection.end_stream()
        elif dice.random() < 0.05:
            connection.reset()
        elif dice.random() < 0.05:
            connection.close()
        elif dice.random() < 0.05:
            await connection.send(b"rubbish\r\n\r\n")
        elif dice.random() < 0.05:
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort")
            connection.close()
        else:
            await connection.answer(b'{"ok":true}' * dice.randrange(1, 500))

    async def be_clients(self, stage: Stage) -> None:
        while self.left > 0:
            client = await stage.client()
            try:
                await self.be_client(client)
            except (asyncio.IncompleteReadError, ConnectionError):
                pass  # the worker's or the gateway's refusal closed it
            finally:
                client.close()
            for worker in stage.workers:
                worker.received.clear()

    async def be_client(self, client: Client) -> None:
        dice = self.dice
        for _ in range(dice.randrange(1, 10)):
            self.left -= 1
            if self.left % (REQUESTS // 8) == 0:
                self.sizes.append(resident_bytes())
            data = dice.choice(REQUEST_BYTES)
            fate = dice.random()
            if fate < 0.04:
                await client.send(data[: dice.randrange(len(data))])
                client.reset()
                return
            await client.send(data)
            if fate < 0.08:
                client.reset() if fate < 0.06 else client.finish()
                return
            await client.answer()


@pytest.mark.timeout(240)
def test_twenty_thousand_mixed_requests_leave_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chaos = Chaos()
    monkeypatch.setattr("tests.e2e.stage.DEADLINE_SECS", 200.0)

    async def scene(stage: Stage) -> None:
        await asyncio.gather(*(chaos.be_clients(stage) for _ in range(CLIENTS)))

    play(scene, chaos.work, chaos.work)
    half = len(chaos.sizes) // 2
    assert chaos.sizes[-1] - chaos.sizes[half] < GROWTH_BYTES, chaos.sizes
