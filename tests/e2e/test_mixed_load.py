"""20,000 mixed requests, aborts on both sides at random points: nothing is left."""

from __future__ import annotations

import asyncio
import random
import statistics
from pathlib import Path

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import STREAM, Client, chat, post
from tests.fakes.worker import Connection, Received

REQUESTS = 20_000
CLIENTS = 50
SAMPLES = 80
GROWTH_BYTES = 8 * 1024 * 1024
EVENT = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
_SIZES = (10, 3_000, 200_000)
GOOD = (
    *(post(chat(x="a" * size)) for size in _SIZES),
    *(post(STREAM), post(STREAM), post(STREAM)),
    b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n",
)
BAD = (
    post(b"{bad"),
    post(chat("nobody")),
    post(path="/nope"),
    b"GET /v1/embeddings HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"BAD\n\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nno size\r\n",
)


def resident_bytes() -> int:
    """What this process has in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Chaos:
    """Decides, by seeded dice, who does what."""

    def __init__(self) -> None:
        self.dice = random.Random(26)
        self.sent = 0
        self.answered = 0
        self.left_early = 0
        self.sizes: list[int] = []

    # -- the worker's side -----------------------------------------------------------

    async def work(self, connection: Connection, request: Received) -> None:
        """Answer well most of the time."""
        if self.dice.random() < 0.1:
            await self._dawdle()
        if request.body == STREAM:
            await self._stream(connection)
        else:
            await self._answer(connection)

    async def _stream(self, connection: Connection) -> None:
        dice = self.dice
        await connection.start_stream()
        for _ in range(dice.randrange(1, 8)):
            await connection.chunk(EVENT)
            fate = dice.random()
            if fate < 0.02:
                connection.reset()
                return
            if fate < 0.04:
                connection.close()
                return
            if fate < 0.06:
                await connection.send(b"rubbish\r\n")
                connection.close()
                return
            if fate < 0.12:
                await self._dawdle()
        await connection.end_stream()

    async def _answer(self, connection: Connection) -> None:
        dice = self.dice
        fate = dice.random()
        if fate < 0.03:
            connection.reset()
        elif fate < 0.06:
            connection.close()
        elif fate < 0.08:
            await connection.send(b"rubbish\r\n\r\n")
        elif fate < 0.10:
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort")
            connection.close()
        elif fate < 0.14:
            await connection.answer(b'{"error":"busy"}', 503)
        else:
            await connection.answer(b'{"ok":true}' * dice.randrange(1, 400))
            if fate > 0.97:
                connection.close()  # unannounced, as an idle connection's end

    # -- the clients' side -----------------------------------------------------------

    async def be_clients(self, stage: Stage) -> None:
        """One client after the other, until enough was sent."""
        while self.sent < REQUESTS:
            client = await stage.client()
            try:
                await self._be_client(client)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.left_early += 1  # the gateway or a worker closed it
            finally:
                client.close()
            for worker in stage.workers:
                worker.received.clear()

    async def _be_client(self, client: Client) -> None:
        dice = self.dice
        for _ in range(dice.randrange(1, 12)):
            self.sent += 1
            if self.sent % (REQUESTS // SAMPLES) == 0:
                self.sizes.append(resident_bytes())
            data = dice.choice(GOOD if dice.random() < 0.8 else BAD)
            if dice.random() < 0.1:
                await self._leave(client, data)
                return
            await client.send(data)
            await client.answer()
            self.answered += 1

    async def _leave(self, client: Client, data: bytes) -> None:
        """Go at some point between the first byte sent and the last one read."""
        dice = self.dice
        self.left_early += 1
        when = dice.randrange(4)
        if when == 0:
            await client.send(data[: dice.randrange(len(data))])
        else:
            await client.send(data)
        if when == 2:
            await self._dawdle()
        if when == 3:
            await client.reader.read(dice.randrange(1, 400))
        client.reset() if dice.random() < 0.5 else client.finish()

    async def _dawdle(self) -> None:
        """Not a wait for anything: the slowness is what is tested."""
        await asyncio.sleep(self.dice.uniform(0.0, 0.004))


def growth(sizes: list[int]) -> float:
    """From the first quarter of a run to its last one."""
    quarter = len(sizes) // 4
    return statistics.median(sizes[-quarter:]) - statistics.median(sizes[:quarter])


@pytest.mark.timeout(240)
def test_counters_return_to_zero_and_memory_stays_flat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.e2e.stage.DEADLINE_SECS", 200.0)
    chaos = Chaos()

    async def scene(stage: Stage) -> None:
        await asyncio.gather(*(chaos.be_clients(stage) for _ in range(CLIENTS)))
        gateway = stage.gateway
        await eventually(lambda: gateway.http.in_flight == 0)
        counted = gateway.http.requests, gateway.http.responses
        assert sum(counted[0].values()) == sum(counted[1].values())
        # Every connection is gone too, whoever ended it and however.
        await eventually(lambda: gateway.listener.open_connections == 0)
        client = await stage.client()
        assert (await client.ask(BAD[2])).status == 404
        client.close()

    play(scene, chaos.work, chaos.work, chaos.work)
    # The dice did what they were thrown for.
    assert chaos.sent >= REQUESTS
    assert chaos.answered > REQUESTS // 2
    assert chaos.left_early > REQUESTS // 20
    assert len(chaos.sizes) == SAMPLES
    assert growth(chaos.sizes) < GROWTH_BYTES, chaos.sizes
