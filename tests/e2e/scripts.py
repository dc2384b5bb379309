"""Workers that answer set bytes, and one request to them."""

from __future__ import annotations

from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer, post
from tests.fakes.worker import Connection, Received, Script

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n"
LENGTH_2 = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
ROUTED = "x-smg-routed-worker-id"


def raw(data: bytes, end: str = "") -> Script:
    """A worker that answers exactly these bytes, then closes or resets or neither."""

    async def script(connection: Connection, request: Received) -> None:
        await connection.send(data)
        if end:
            getattr(connection, end)()

    return script


def ask_once(script: Script, request: bytes = b"", **rooms: object) -> Answer:
    """What one client gets of a worker that must be asked exactly once."""
    answers: list[Answer] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        answers.append(await client.ask(request or post()))
        assert len(stage.worker.received) == 1
        assert stage.gateway.upstream.resends == 0
        client.close()

    play(scene, script, **rooms)
    return answers[0]
