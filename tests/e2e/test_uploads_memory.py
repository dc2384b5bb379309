"""What eight large uploads at once take of a gateway's memory, seen from outside."""

from __future__ import annotations

import asyncio
from pathlib import Path

from loadtest import procfs
from tests.e2e.process import RunningGateway
from tests.e2e.uploads import LAST_CHUNK, upload_head
from tests.fakes.client import Client
from tests.fakes.worker import Connection, FakeWorker, Received

CLIENTS, MIB = 8, 1024 * 1024
SIZE = 64 * MIB
# Reads, write buffers and what the allocator keeps; the bodies are 512 MiB.
MOST_GROWN_KIB = 32 * 1024


class CountingWorker(FakeWorker):
    """Takes bodies in the chunked coding and remembers only how long they were."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        connection = Connection(reader, writer)
        self.open.add(connection)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                method, path, _ = head.decode().split(" ", 2)
                if method == "GET":
                    await self._probe(connection, Received(method, path, head, b""))
                    continue
                self.sizes.append(await body_size(reader))
                await connection.answer(b"{}")
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open.discard(connection)
            writer.close()


async def body_size(reader: asyncio.StreamReader) -> int:
    """Read a body to its end; how long it was with its framing."""
    size, tail = 0, b""
    while tail != LAST_CHUNK:
        data = await reader.read(MIB)
        assert data, "the upload was cut"
        size += len(data)
        tail = (tail + data[-len(LAST_CHUNK) :])[-len(LAST_CHUNK) :]
    return size


async def upload(port: int) -> int:
    """One upload; the status of its answer."""
    client = await Client.connect(port)
    await client.send(upload_head(SIZE))
    piece = bytes(MIB)
    for _ in range(SIZE // MIB):
        await client.send(piece)
    answer = await client.answer()
    client.close()
    return answer.status


def test_eight_streamed_uploads_are_never_in_memory(tmp_path: Path) -> None:
    async def scene() -> None:
        worker = CountingWorker()
        await worker.start()
        flags = ("--worker-urls", worker.url, "--policy", "round_robin")
        with RunningGateway(tmp_path, *flags) as running:
            await asyncio.to_thread(running.wait_until)
            pid = running.child.pid
            procfs.reset_peak(pid)
            before = procfs.memory_kib(pid, "VmRSS")
            answers = await asyncio.gather(
                *(upload(running.port) for _ in range(CLIENTS))
            )
            grown = procfs.memory_kib(pid, "VmHWM") - before
        await worker.stop()
        assert answers == [200] * CLIENTS
        assert len(worker.sizes) == CLIENTS and min(worker.sizes) > SIZE
        assert grown < MOST_GROWN_KIB

    asyncio.run(scene())
