"""Workers that die, stall and answer anything, under load: what clients are owed.

Each client gets a whole answer of the contract, in time; afterwards nothing is in
flight anywhere, and every worker that is well again is used again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
import ujson

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.routing.router import RoutingOptions
from tests.e2e.failing import ask
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Answer, Client, chat, post
from tests.fakes.worker import Connection, FakeWorker, Received, say_ok

CLIENTS = 50
SECS = 2.5
ATTEMPTS = 3
TIMEOUT_SECS: Any = 0.4
# The attempts' time, late by a sweep of the pool each; the rest is a busy machine's.
DEADLINE_SECS = ATTEMPTS * (TIMEOUT_SECS + 0.25) + 3
BREAKER_SECS: Any = 0.2

WORKERS_OWN = {429, 500, 503}
GATEWAYS = {
    (500, "call_upstream_connection_failed"),
    (500, "call_upstream_request_error"),
    (500, "read_response_body_failed"),
    (502, "call_upstream_request_error"),
    (503, "no_available_workers"),
    (504, "call_upstream_timeout"),
}
DONE = b"data: [DONE]\n\n"


class Chaos:
    """The dice, and everybody who goes by them."""

    def __init__(self, seed: int, stage: Stage) -> None:
        self.dice = random.Random(seed)
        self.stage = stage
        self.is_over = False
        self.seen: Counter[object] = Counter()
        self.slowest = 0.0

    # -- workers ---------------------------------------------------------------------

    async def script(self, connection: Connection, request: Received) -> None:
        """Do anything."""
        acts = [self.works, self.dawdles, self.says, self.cuts, self.stalls]
        acts += [self.resets, self.rubbish, self.works, self.works]
        is_stream = ujson.loads(request.body).get("stream", False)
        await self.dice.choice(acts)(connection, is_stream)

    async def works(self, connection: Connection, is_stream: bool) -> None:
        if not is_stream:
            await connection.answer(b'{"ok":true}')
            return
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await asyncio.sleep(0.001)
        await connection.chunk(DONE)
        await connection.end_stream()

    async def dawdles(self, connection: Connection, is_stream: bool) -> None:
        await asyncio.sleep(self.dice.uniform(0.01, 0.2))
        await self.works(connection, is_stream)

    async def says(self, connection: Connection, is_stream: bool) -> None:
        await connection.answer(b"{}", self.dice.choice([*WORKERS_OWN]))

    async def cuts(self, connection: Connection, is_stream: bool) -> None:
        await self._half(connection, is_stream)
        connection.close()

    async def stalls(self, connection: Connection, is_stream: bool) -> None:
        if self.dice.random() < 0.5:
            await self._half(connection, is_stream)
        await connection.until_gone()

    async def resets(self, connection: Connection, is_stream: bool) -> None:
        connection.reset()

    async def rubbish(self, connection: Connection, is_stream: bool) -> None:
        await connection.send(b"no HTTP at all\r\n\r\n")
        connection.close()

    async def _half(self, connection: Connection, is_stream: bool) -> None:
        if is_stream:
            await connection.start_stream()
            await connection.chunk(b"data: 1\n\n")
        else:
            await connection.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{")

    async def kill_and_restart(self, worker: FakeWorker) -> None:
        """Again and again, now and then; it is up in the end."""
        while not self.is_over:
            await asyncio.sleep(self.dice.uniform(0.1, 0.6))
            await worker.stop()
            await asyncio.sleep(self.dice.uniform(0.05, 0.3))
            await worker.start(worker.port)

    # -- clients ---------------------------------------------------------------------

    async def client(self) -> None:
        """One request after the other, some of them given up."""
        loop = asyncio.get_running_loop()
        client = await self.stage.client()
        while not self.is_over:
            is_stream = self.dice.random() < 0.5
            user = str(self.dice.random())
            await client.send(post(chat(user=user, stream=is_stream)))
            if self.dice.random() < 0.1:
                await asyncio.sleep(self.dice.uniform(0, 0.1))
                client.reset()
                client = await self.stage.client()
                continue
            began = loop.time()
            answer = await asyncio.wait_for(client.answer(), DEADLINE_SECS)
            self.slowest = max(self.slowest, loop.time() - began)
            self.check(answer, is_stream)
            if answer.get("x-smg-error-code") == "no_available_workers":
                await asyncio.sleep(self.dice.uniform(0.01, 0.1))
            client = await self._go_on(client, answer)
        client.close()

    async def _go_on(self, client: Client, answer: Answer) -> Client:
        if answer.get("connection") != "close":
            return client
        client.close()
        return await self.stage.client()

    def check(self, answer: Answer, is_stream: bool) -> None:
        """It is whole, and one that the contract has."""
        assert answer.is_whole, answer.body
        code = answer.get("x-smg-error-code")
        self.seen[answer.status if code is None else (answer.status, code)] += 1
        if answer.status == 200 and is_stream:
            assert answer.body.startswith(b"data: ") and answer.body.endswith(DONE)
            if b'"error"' in answer.body:
                assert b'"stream_error"' in answer.body
                self.seen["stream_error"] += 1
        elif answer.status == 200:
            assert answer.body == b'{"ok":true}'
        elif code is None:
            assert (answer.status in WORKERS_OWN) and answer.body == b"{}"
        else:
            assert (answer.status, code) in GATEWAYS
            assert ujson.loads(answer.body)["error"]["code"] == code


@pytest.mark.parametrize(
    ("seed", "policy"), [(1, "cache_aware"), (2, "round_robin"), (3, "power_of_two")]
)
def test_whatever_workers_do_clients_get_their_answers(seed: int, policy: str) -> None:
    async def scene(stage: Stage) -> None:
        chaos = Chaos(seed, stage)
        for worker in stage.workers:
            worker.script = chaos.script
        async with asyncio.TaskGroup() as tasks:
            for worker in stage.workers:
                tasks.create_task(chaos.kill_and_restart(worker))
            for _ in range(CLIENTS):
                tasks.create_task(chaos.client())
            await asyncio.sleep(SECS)
            chaos.is_over = True
        print(f"slowest {chaos.slowest:.2f} s; {dict(chaos.seen)}")
        assert chaos.seen[200] > 100
        assert chaos.seen["stream_error"]
        await eventually(lambda: not stage.gateway.dispatcher.running)
        assert [record.load for record in stage.records] == [0, 0, 0]
        await all_are_used_again(stage)

    play(
        scene,
        *[say_ok] * 3,
        routing=RoutingOptions(policy),
        retries=RetryOptions(ATTEMPTS, 5, 20),
        upstream={"request_timeout_secs": TIMEOUT_SECS},
        breaker={"cb_timeout_duration_secs": BREAKER_SECS, "cb_failure_threshold": 20},
    )


async def all_are_used_again(stage: Stage) -> None:
    """Workers that are well get requests, and clients get 200 and nothing else."""
    for worker in stage.workers:
        worker.script = say_ok
        worker.received.clear()
    reopens = [one.breaker.reopens_at for one in stage.records]
    loop = asyncio.get_running_loop()
    await eventually(
        lambda: all(at == float("inf") or at < loop.time() for at in reopens)
    )
    number = 0
    while not all(worker.received for worker in stage.workers):
        number += 1
        assert number < 200
        prompt = chat(messages=[{"role": "user", "content": f"{number} " * 50}])
        assert (await ask(stage, post(prompt))).status == 200
