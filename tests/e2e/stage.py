"""A real gateway and scripted workers in one loop, and the proof that nothing is left.

A test is a coroutine that gets a ``Stage``; ``play`` runs it on uvloop, with a
deadline, and afterwards asserts that no task, connection, exchange or worker load
remains.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import uvloop

from smgproxy.dispatch.retry import RetryOptions
from smgproxy.fleet.worker import HttpPoolSettings, Worker, WorkerState
from smgproxy.gateway import Gateway
from smgproxy.routing.router import RoutingOptions
from smgproxy.server_options import ServerOptions
from smgproxy.settings import Settings
from smgproxy.telemetry.options import TelemetryOptions
from tests.fakes.client import Answer, Client
from tests.fakes.worker import FakeWorker, Script, say_ok

DEADLINE_SECS = 20.0


async def eventually(is_true: Callable[[], object], secs: float = 5.0) -> None:
    """Wait for a fact, until a deadline."""
    async with asyncio.timeout(secs):
        while not is_true():
            await asyncio.sleep(0.002)


class Stage:
    """What a test plays on."""

    def __init__(self, gateway: Gateway, workers: list[FakeWorker], port: int) -> None:
        self.gateway = gateway
        self.workers = workers
        self.port = port

    @property
    def worker(self) -> FakeWorker:
        """The first worker."""
        return self.workers[0]

    @property
    def records(self) -> list[Worker]:
        """The gateway's own records of the workers."""
        return self.gateway.registry.all()

    async def client(
        self, receive_buffer: int = 0, tls: ssl.SSLContext | None = None
    ) -> Client:
        """A new raw connection to the gateway."""
        return await Client.connect(self.port, receive_buffer, tls)

    async def ask(self, request: bytes) -> Answer:
        """The answer to one request, by a client of its own."""
        client = await self.client()
        try:
            return await client.ask(request)
        finally:
            client.close()

    def responses(
        self, path: str = "/v1/chat/completions"
    ) -> dict[tuple[int, str], int]:
        """How often each (status, error code) was counted for a path."""
        return {
            (status, code): count
            for (label, status, code), count in self.gateway.http.responses.items()
            if label == path
        }

    def register(self, fake: FakeWorker, pool: HttpPoolSettings) -> Worker:
        """Put a worker into service without probes, which tests of their own have."""
        worker = Worker(f"id-{fake.port}", fake.url, http_pool=pool)
        worker.models = [{"id": fake.model}]
        worker.labels = dict(fake.labels)
        worker.state = WorkerState.READY
        worker.breaker.settings = self.gateway.settings.breaker.settings()
        self.gateway.registry.add(worker)
        return worker


class OneAttempt(RetryOptions):
    """Bodies are kept for a retry, as usual, and then none is made.

    So that a scene of one fault sees it once; scenes of retries give their own.
    """

    @property
    def is_enabled(self) -> bool:
        """As far as the way of a body goes."""
        return not self.disable_retries


def settings(**rooms: Any) -> Settings:
    """Settings of a gateway on ports the kernel chooses, quiet, without probes."""
    values: dict[str, Any] = {
        "server": ServerOptions(host="127.0.0.1", port=0, shutdown_grace_period_secs=2),
        "telemetry": TelemetryOptions(
            prometheus_host="127.0.0.1", prometheus_port=0, log_level="off"
        ),
        "routing": RoutingOptions("round_robin"),
        "retries": OneAttempt(retry_max_retries=1),
    }
    for name, changes in rooms.items():
        default = values.get(name, getattr(Settings, name))
        if isinstance(changes, dict):
            changes = dataclasses.replace(default, **changes)
        values[name] = changes
    made = object.__new__(Settings)
    for field in dataclasses.fields(Settings):
        # Two ports of 0 are the kernel's to tell apart; no check of ours applies.
        object.__setattr__(made, field.name, values.get(field.name, field.default))
    return made


def play(
    scene: Callable[[Stage], Awaitable[None]],
    *scripts: Script,
    **rooms: Any,
) -> None:
    """Run a scene with one worker for each script (one that works, if none is given).

    ``kind=RealtimeWorker``: the class of the workers.

    Keyword arguments change settings by room: ``clients={"idle_...": 1}``, or set one
    that is no room's: ``keys=Keys(...)``.
    """

    kind: type[FakeWorker] = rooms.pop("kind", FakeWorker)

    async def run() -> None:
        chosen = settings(**rooms)
        workers = [kind(script) for script in scripts or (say_ok,)]
        for worker in workers:
            await worker.start()
        gateway = Gateway(chosen, {})
        try:
            await gateway.start()
            stage = Stage(gateway, workers, gateway.listener.ports()[0])
            for worker in workers:
                stage.register(worker, chosen.upstream.http_pool())
            await asyncio.wait_for(scene(stage), DEADLINE_SECS)
            await nothing_left(stage)
        finally:
            await gateway.close()
            for worker in workers:
                await worker.stop()
        await eventually(lambda: asyncio.all_tasks() == {asyncio.current_task()})

    uvloop.run(run())


async def nothing_left(stage: Stage) -> None:
    """Every exchange is over and gave back what it held."""
    gateway = stage.gateway
    await eventually(lambda: not gateway.dispatcher.running)
    await eventually(lambda: gateway.http.in_flight == 0)
    for record in stage.records:
        assert record.load == 0
    await eventually(
        lambda: all(busy == 0 for _, busy in gateway.upstream.counts().values())
    )
    assert len(gateway.keepalives) == 0
    await eventually(lambda: len(gateway.realtime.sockets) == 0)
    assert gateway.realtime.stats.open == 0
    gate = gateway.dispatcher.gate
    if gate is not None:
        gauges = {
            (sample.name, *sample.labels.values()): sample.value
            for family in gate.families()
            for sample in family.metric().samples
            if sample.name.endswith(("_inflight", "_queue_depth"))
        }
        assert gauges and not any(gauges.values()), gauges
