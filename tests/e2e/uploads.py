"""Workers that see a streamed upload from its head on, and clients that make them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from smgproxy.fleet.worker import HttpPoolSettings
from tests.e2e.stage import Stage, play
from tests.fakes.worker import Connection, FakeWorker, Received

PATH = "/v1/chat/completions"
# Every body streams, whatever its length.
STREAMED: dict[str, Any] = {"retries": {"disable_retries": True}}
LAST_CHUNK = b"0\r\n\r\n"


def upload_head(length: int, headers: str = "", path: str = PATH) -> bytes:
    """The head of a sized upload."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: g\r\nContent-Length: {length}\r\n"
        f"{headers}\r\n"
    ).encode()


class UploadedTo(Connection):
    """The worker's end of a connection whose request is still coming in."""

    async def chunk_in(self) -> bytes | None:
        """One chunk of the body; empty at its end, None if it was cut off before."""
        try:
            size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
            data = await self.reader.readexactly(size + 2)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return data[:-2]

    async def body_in(self) -> tuple[bytes, bool]:
        """The rest of the body, and whether it had an end."""
        pieces = []
        while piece := await self.chunk_in():
            pieces.append(piece)
        return b"".join(pieces), piece is not None


UploadScript = Callable[[UploadedTo, Received], Awaitable[None]]


class UploadWorker(FakeWorker):
    """A worker whose script begins at the head, with the body on its way."""

    def __init__(self, script: UploadScript) -> None:
        super().__init__()
        self.upload_script = script

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = UploadedTo(reader, writer)
        self.accepted += 1
        self.open.add(connection)
        try:
            while not connection.is_closed:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.split(b" ", 2)
                request = Received(method.decode(), path.decode(), head, b"")
                self.received.append(request)
                await self.upload_script(connection, request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(connection)
            writer.close()


UploadScene = Callable[[Stage, UploadWorker], Awaitable[None]]


def play_upload(
    scene: UploadScene, script: UploadScript, *, timeout_secs: float = 15, **rooms: Any
) -> None:
    """Run a scene with one worker of the kind above, and no other."""

    async def inner(stage: Stage) -> None:
        stage.gateway.registry.remove(stage.records[0])
        worker = UploadWorker(script)
        await worker.start()
        stage.register(worker, HttpPoolSettings(timeout_secs=timeout_secs))
        try:
            await scene(stage, worker)
        finally:
            await worker.stop()

    play(inner, **{**STREAMED, **rooms})


def body_paths(stage: Stage) -> dict[tuple[str, str], int]:
    """How often each (path, reason) was counted."""
    return dict(stage.gateway.router_stats.body_paths)
