"""What the tests of admission share: clients of both protocols, a worker that waits."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

import ujson

from smgproxy.admission.classes import SchedulerConfig
from smgproxy.admission.limiter import Limiter
from smgproxy.admission.scheduler import Scheduler
from tests.admission.asking import limits
from tests.e2e.asking import error_of
from tests.e2e.stage import Stage, eventually
from tests.fakes.client import CHAT, Answer, Client, post
from tests.fakes.http2_client import Http2Client
from tests.fakes.worker import Connection, Received

PROTOCOLS = ["http1", "http2"]
CHAT_PATH = "/v1/chat/completions"


class Call(Protocol):
    """A request that was sent, of whatever protocol."""

    async def answer(self) -> Answer:
        """Its response."""

    def leave(self) -> None:
        """Want it no longer."""

    def close(self) -> None:
        """Done with it."""


class Http1Call:
    """A request on a connection of its own."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def answer(self) -> Answer:
        return await self.client.answer()

    def leave(self) -> None:
        self.client.reset()

    def close(self) -> None:
        self.client.close()


class Http2Call:
    """A stream of an HTTP/2 connection; other calls may share it."""

    def __init__(self, client: Http2Client, stream: int) -> None:
        self.client = client
        self.stream = stream

    async def answer(self) -> Answer:
        return await self.client.answer(self.stream)

    def leave(self) -> None:
        self.client.take_back(self.stream)

    def close(self) -> None:
        self.client.close()


async def call(
    stage: Stage,
    protocol: str = "http1",
    body: bytes = CHAT,
    path: str = CHAT_PATH,
    **headers: str,
) -> Call:
    """Send a request over a new connection; x_smg_priority="bulk" is a header."""
    fields = [(name.replace("_", "-"), value) for name, value in headers.items()]
    if protocol == "http2":
        speaker = await Http2Client.connect(stage.port)
        return Http2Call(speaker, speaker.ask(body, path, tuple(fields)))
    client = await stage.client()
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields)
    await client.send(post(body, path, lines))
    return Http1Call(client)


async def ask(stage: Stage, protocol: str = "http1", **more: Any) -> Answer:
    """A request and its answer."""
    one = await call(stage, protocol, **more)
    answer = await one.answer()
    one.close()
    return answer


class Waiting:
    """A worker that answers when, and as, the test says; it says what it got."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.most = 0
        self.cut = 0  # requests that the gateway gave up
        self._turns: deque[asyncio.Future[bytes]] = deque()

    @property
    def running(self) -> int:
        """Requests that it has yet to answer."""
        return len(self._turns)

    async def script(self, connection: Connection, request: Received) -> None:
        """Wait for ``go``, or for the gateway to leave."""
        self.bodies.append(request.body)
        turn: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._turns.append(turn)
        self.most = max(self.most, self.running)
        gone = asyncio.ensure_future(connection.until_gone())
        both: set[asyncio.Future[Any]] = {turn, gone}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            self.cut += 1
            if turn in self._turns:
                self._turns.remove(turn)
            return
        gone.cancel()
        await asyncio.wait({gone})
        await connection.send(turn.result())

    def go(
        self, answer: bytes = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    ) -> None:
        """Answer the request that has waited longest."""
        self._turns.popleft().set_result(answer)

    async def has(self, count: int) -> None:
        """Wait until so many requests have come since the start."""
        await eventually(lambda: len(self.bodies) == count)


def limiter(stage: Stage) -> Limiter:
    """The gateway's limiter."""
    gate = stage.gateway.dispatcher.gate
    assert gate is not None and isinstance(gate.admission, Limiter)
    return gate.admission


def scheduler(stage: Stage) -> Scheduler:
    """The gateway's scheduler."""
    gate = stage.gateway.dispatcher.gate
    assert gate is not None and isinstance(gate.admission, Scheduler)
    return gate.admission


async def depth_is(stage: Stage, depth: int) -> None:
    """Wait until so many requests wait."""
    gate = stage.gateway.dispatcher.gate
    assert gate is not None
    one = gate.admission

    def waiting() -> int:
        if isinstance(one, Limiter):
            return one.depth
        return sum(each.depth for each in one.states())

    await eventually(lambda: waiting() == depth)


def check_shed(
    answer: Answer,
    status: int,
    code: str,
    message: str,
    retry_after: str = "2",
) -> None:
    """An answer is exactly what the contract says of a shed."""
    kinds = {429: "Too Many Requests", 503: "Service Unavailable"}
    assert answer.status == status and answer.is_whole
    assert answer.get("x-smg-error-code") == code
    assert answer.get("retry-after") == retry_after
    assert answer.get("content-type") == "application/json"
    assert (answer.get("x-request-id") or "").startswith("chatcmpl-")
    assert error_of(answer) == {
        "type": kinds[status],
        "code": code,
        "message": message,
        "param": None,
    }


def limits_of(capacity: int = 1, size: int = 10, timeout: int = 60) -> dict[str, int]:
    """The limiter's room."""
    return {
        "max_concurrent_requests": capacity,
        "queue_size": size,
        "queue_timeout_secs": timeout,
    }


def classes(**changes: Any) -> dict[str, Any]:
    """The scheduler's room: the two upper classes preempt, and queues are short."""
    low, high = limits(queue_size=2, **changes), limits(queue_size=2, can_preempt=True)
    config = SchedulerConfig((low, low, high, high))
    return {
        "priority_scheduler_enabled": True,
        "priority_scheduler_config": config,
        "priority_scheduler_default_max_class": "system",
    }


def slots(stage: Stage, count: int) -> None:
    """The worker says how many requests it runs at once."""
    [record] = stage.records
    record.labels = {"max_running_requests": str(count)}
    stage.gateway.registry.changed()
    assert scheduler(stage).capacity == count


async def finish(worker: Waiting, *calls: Call) -> None:
    """Answer them one after the other."""
    for one in calls:
        await eventually(lambda: worker.running)
        worker.go()
        assert (await one.answer()).status == 200
        one.close()


def named(name: str) -> bytes:
    """A chat body that a worker can tell from others."""
    messages = [{"role": "user", "content": "hi"}]
    return ujson.dumps({"model": "m", "messages": messages, "user": name}).encode()
