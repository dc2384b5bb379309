"""One vector played against a real gateway and scripted workers in this process."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

from smgproxy.arguments import read_arguments
from smgproxy.fleet.worker import WorkerState
from smgproxy.settings import declared_flags, make_settings
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Answer
from tests.fakes.worker import Connection, Received, say_ok

HERE = Path(__file__).parent
FILES = ("chat", "profiles", "completions", "errors")
Vector = dict[str, Any]

SSE_BODY = b'data: {"choices":[]}\n\ndata: [DONE]\n\n'
DEFAULT_BODY = b'{"object":"test","choices":[]}'


def read_vectors() -> list[Vector]:
    """Every vector of every file."""
    texts = ((HERE / f"{name}.jsonl").read_text() for name in FILES)
    return [json.loads(line) for text in texts for line in text.splitlines()]


class Case:
    """What a vector's workers do, and what came out of it."""

    def __init__(self, vector: Vector) -> None:
        self.vector = vector
        self.setup: dict[str, Any] = vector.get("setup", {})
        self.prelude: list[dict[str, Any]] = list(self.setup.get("prelude", ()))
        self.busy: int = self.setup.get("busy", 0)
        self.received: list[Received] = []
        self.answer: Answer | None = None
        self._holding: asyncio.Future[None] | None = None

    def run(self) -> Answer:
        """Play the vector; the gateway's answer, with ``received`` filled."""
        given = read_arguments(self.vector["args"], declared_flags())
        made = make_settings(given)
        rooms = {
            field.name: getattr(made, field.name)
            for field in dataclasses.fields(made)
            if field.name not in ("server", "telemetry")  # the stage has its own
        }
        models = self.setup.get("models", ["m"])
        play(self._scene, *[self._script] * max(len(models), 1), **rooms)
        assert self.answer is not None
        return self.answer

    # -- the worker's part -----------------------------------------------------------

    async def _script(self, connection: Connection, request: Received) -> None:
        if self._holding is not None and self.busy:
            self.busy -= 1
            await self._holding
            await say_ok(connection, request)
            return
        reply = self.setup.get("reply")
        if self.prelude:
            reply = self.prelude.pop(0)
        else:
            self.received.append(request)
        await _give(connection, request, reply)

    # -- the client's part -----------------------------------------------------------

    async def _scene(self, stage: Stage) -> None:
        self._set_up(stage)
        for _ in list(self.prelude):
            await self._ask(stage)
        held = await self._keep_busy(stage)
        self.answer = await self._ask(stage)
        if self._holding is not None:
            self._holding.set_result(None)
            await asyncio.gather(*held)

    def _set_up(self, stage: Stage) -> None:
        models = self.setup.get("models", ["m"])
        if not models:
            stage.gateway.registry.remove(stage.records[0])
        for record, model in zip(stage.records, models, strict=True):
            record.models = [{"id": model}]
            record.runtime_type = self.setup.get("identity", "sglang")
            if "health" in self.setup:
                stage.gateway.registry.set_state(record, WorkerState.NOT_READY)
        stage.gateway.registry.changed()

    async def _keep_busy(self, stage: Stage) -> list[asyncio.Task[Answer]]:
        wanted = self.busy
        if not wanted:
            return []
        self._holding = asyncio.get_running_loop().create_future()
        tasks = [
            asyncio.ensure_future(self._ask(stage, _BUSY)) for _ in range(wanted)
        ]
        await eventually(lambda: self.busy == 0)
        return tasks

    async def _ask(
        self, stage: Stage, request: dict[str, Any] | None = None
    ) -> Answer:
        request = request or self.vector["request"]
        client = await stage.client()
        try:
            await client.send(request_bytes(request))
            return await client.answer(request["method"] != "HEAD")
        finally:
            client.close()


# What holds a worker's attention, whatever the vector itself asks.
_BUSY: dict[str, Any] = {
    "method": "POST",
    "path": "/v1/chat/completions",
    "headers": [["Content-Type", "application/json"]],
    "body": '{"model":"m","messages":[{"role":"user","content":"hi"}]}',
}


def request_bytes(request: dict[str, Any]) -> bytes:
    """A vector's request as it goes over the wire."""
    body: bytes | None = None
    if request.get("body_b64") is not None:
        body = base64.b64decode(request["body_b64"])
    elif request.get("body") is not None:
        body = request["body"].encode()
    lines = [f"{request['method']} {request['path']} HTTP/1.1", "Host: gateway"]
    headers = [tuple(pair) for pair in request["headers"]]
    is_chunked = request.get("chunked", False)
    lines += [
        f"{name}: {value}"
        for name, value in headers
        if not (is_chunked and name.lower() == "transfer-encoding")
    ]
    if is_chunked:
        lines.append("Transfer-Encoding: chunked")
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body or b""), body or b"")
    elif body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


async def _give(
    connection: Connection, request: Received, reply: dict[str, Any] | None
) -> None:
    """Answer as the vectors' README says a worker does."""
    if reply is None:
        if b'"stream":true' in request.body.replace(b" ", b""):
            reply = {"headers": [["Content-Type", "text/event-stream"]]}
            reply["body"] = SSE_BODY.decode()
        else:
            reply = {"headers": [["Content-Type", "application/json"]]}
            reply["body"] = DEFAULT_BODY.decode()
    if reply.get("close"):
        connection.close()
        return
    body = reply["body"].encode()
    status = reply.get("status", 200)
    pairs = reply.get("headers", [["Content-Type", "application/json"]])
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{k}: {v}" for k, v in pairs)]
    if status != 204:
        lines.append(f"Content-Length: {len(body)}")
    await connection.send("\r\n".join([*lines, "", ""]).encode() + body)
