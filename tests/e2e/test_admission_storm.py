"""Everything goes wrong at once, and afterwards nothing is held by anybody."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from smgproxy.admission.classes import CLASS_NAMES, SchedulerConfig
from tests.admission.asking import limits
from tests.e2e.admitting import ask
from tests.e2e.stage import Stage, eventually, play
from tests.e2e.streaming import EVENTS
from tests.fakes.client import CHAT, STREAM, Client, post
from tests.fakes.http2_client import Http2Client
from tests.fakes.worker import Connection, FakeWorker, Received

CLIENTS = 40
SECS = 2.0
# So short that many waits end in the very turn in which a permit comes free.
QUEUE_SECS: Any = 0.01
# All that a client may be answered here, whatever happens behind the gateway.
STATUSES = {200, 400, 429, 500, 502, 503}

LIMITER = {
    "max_concurrent_requests": 6,
    "queue_size": 8,
    "queue_timeout_secs": QUEUE_SECS,
}
LOW = limits(queue_size=8, timeout=QUEUE_SECS, starvation=QUEUE_SECS)
HIGH = limits(1, queue_size=8, timeout=QUEUE_SECS, can_preempt=True)
SCHEDULER = {
    "priority_scheduler_enabled": True,
    "priority_scheduler_config": SchedulerConfig((LOW, LOW, HIGH, HIGH)),
    "priority_scheduler_default_max_class": "system",
}


class Storm:
    """The dice, the workers that go by them, and the clients."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.is_over = False
        self.seen: dict[int, int] = {}
        self.left = 0

    # -- workers ---------------------------------------------------------------------

    async def script(self, connection: Connection, request: Received) -> None:
        """Answer in any way there is; in the usual one when the storm is over."""
        if self.is_over:
            await connection.answer(b"{}")
            return
        await self.wait()
        act = self.dice.choice(
            [self.works, self.works, self.fails, self.cuts, self.resets, self.rubbish]
            + [self.streams, self.streams, self.hangs]
        )
        await act(connection)

    async def wait(self) -> None:
        """A moment, or none."""
        await asyncio.sleep(self.dice.choice((0, 0.001, 0.01, 0.02)))

    async def works(self, connection: Connection) -> None:
        await connection.answer(b'{"ok":true}')

    async def fails(self, connection: Connection) -> None:
        await connection.answer(b"{}", 500)

    async def cuts(self, connection: Connection) -> None:
        await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 90\r\n\r\n{")
        connection.close()

    async def resets(self, connection: Connection) -> None:
        connection.reset()

    async def rubbish(self, connection: Connection) -> None:
        await connection.answer(b'{"choices":[')

    async def streams(self, connection: Connection) -> None:
        await connection.start_stream()
        for event in EVENTS:
            await self.wait()
            await connection.chunk(event)
            if self.dice.random() < 0.1:
                connection.reset()
                return
        await connection.end_stream()

    async def hangs(self, connection: Connection) -> None:
        await self.wait()
        connection.close()

    # -- clients ---------------------------------------------------------------------

    async def client(self, stage: Stage) -> None:
        """Ask over and over until the storm is over."""
        while not self.is_over:
            act = self.dice.choice((self.asks, self.asks, self.aborts, self.asks_http2))
            await act(stage)
            await asyncio.sleep(0)

    def request(self) -> tuple[bytes, str]:
        """A body, sometimes a wrong one, and a priority."""
        bodies = (CHAT, CHAT, STREAM, STREAM, b'{"model":', CHAT + b" " * 200_000)
        return self.dice.choice(bodies), self.dice.choice(CLASS_NAMES)

    async def asks(self, stage: Stage) -> None:
        body, priority = self.request()
        client = await stage.client()
        answer = await client.ask(post(body, headers=f"x-smg-priority: {priority}\r\n"))
        self.count(answer.status)
        client.close()

    async def aborts(self, stage: Stage) -> None:
        body, priority = self.request()
        request = post(body, headers=f"x-smg-priority: {priority}\r\n")
        client: Client = await stage.client()
        await client.send(request[: self.dice.randrange(len(request))])
        await self.wait()
        self.dice.choice((client.reset, client.close, client.finish))()
        self.left += 1
        client.close()

    async def asks_http2(self, stage: Stage) -> None:
        client = await Http2Client.connect(stage.port)
        streams = []
        for _ in range(3):
            body, priority = self.request()
            fields = (("x-smg-priority", priority),)
            streams.append(client.ask(body[:4000], headers=fields))
        await self.wait()
        if self.dice.random() < 0.5:
            client.take_back(streams.pop())
            self.left += 1
        for stream in streams:
            self.count((await client.answer(stream)).status)
        client.close()

    def count(self, status: int) -> None:
        self.seen[status] = self.seen.get(status, 0) + 1


@pytest.mark.parametrize(
    "rooms", [{"limiter": LIMITER}, {"scheduler": SCHEDULER}], ids=lambda one: [*one][0]
)
@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_storm_nothing_is_held(rooms: dict[str, Any], seed: int) -> None:
    storm = Storm(seed)

    async def scene(stage: Stage) -> None:
        refusing = FakeWorker()
        await refusing.start()
        await refusing.stop()
        for worker in stage.records:
            worker.labels = {"max_running_requests": "3"}
        nobody = stage.register(refusing, stage.records[0].http_pool)
        nobody.labels = {"max_running_requests": "1"}
        stage.gateway.registry.changed()
        clients = [asyncio.ensure_future(storm.client(stage)) for _ in range(CLIENTS)]
        await asyncio.sleep(SECS)
        storm.is_over = True
        await asyncio.gather(*clients)
        assert set(storm.seen) <= STATUSES, storm.seen
        assert {200, 429, 500, 503} <= set(storm.seen), storm.seen
        assert storm.left
        await eventually(lambda: not stage.gateway.dispatcher.running)
        stage.gateway.registry.remove(nobody)
        for _ in range(4):
            assert (await ask(stage)).status == 200
        assert all(status for status, _ in stage.responses())

    play(scene, storm.script, storm.script, **rooms)
