"""The frame corpus through a gateway: sent by the client, and by the worker.

``tests/wire`` cuts the same cases in every way; here each one is a session.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.e2e.stage import Stage, eventually, play
from tests.fakes.websocket import CLOSE, Peer, RealtimeWorker, SocketClient, accept
from tests.fakes.worker import Connection, Received
from tests.wire.frame_corpus import CASES, Case, Piece, passing

_DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate\r\n"
GROUPS = sorted({case.name.partition(".")[0] for case in CASES}, key=int)


class Pair:
    """Both ends of one session, in which one of them sends a case."""

    def __init__(self, case: Case, client: Peer, worker: Peer, by_client: bool) -> None:
        self._case = case
        self._client, self._worker = client, worker
        self._by_client = by_client
        self._sender, self._other = client, worker
        if not by_client:
            self._sender, self._other = worker, client

    async def play(self) -> None:
        """Send it, and see what both sides get."""
        case = self._case
        await self._sender.send_raw(self._encoded(case.pieces))
        passed = self._encoded(passing(case))
        assert await self._other.reader.readexactly(len(passed)) == passed
        if case.code is not None:
            told, rest = await self._sender.read(), await self._other.read()
            assert (told.opcode, rest.opcode) == (CLOSE, CLOSE)
            assert told.code == case.code
            assert rest.code == (1001 if self._by_client else 1011)
        elif case.closes is not None:
            await self._answer(case.closes)
        else:
            await self._sender.close(1000)
            assert (await self._other.read()).code == 1000
            await self._answer(1000)
        assert await self._client.at_end() == b""

    async def _answer(self, code: int) -> None:
        await self._other.close(None if code == 1005 else code)
        assert (await self._sender.read()).code == code

    def _encoded(self, pieces: tuple[Piece, ...]) -> bytes:
        return b"".join(piece.encoded(self._by_client) for piece in pieces)


@pytest.mark.parametrize("side", ["client", "worker"])
@pytest.mark.parametrize("group", GROUPS)
def test_a_case_passes_untouched_or_its_sender_is_told(group: str, side: str) -> None:
    opened: list[Peer] = []
    over = asyncio.Event()

    async def script(connection: Connection, request: Received) -> None:
        is_packed = request.get("sec-websocket-extensions") is not None
        opened.append(await accept(connection, request, _DEFLATE if is_packed else ""))
        await over.wait()
        connection.close()

    async def one(stage: Stage, case: Case) -> None:
        headers = _DEFLATE if case.has_deflate else ""
        client = await SocketClient.open(stage.port, headers=headers)
        await eventually(lambda: opened)
        try:
            async with asyncio.timeout(5):
                await Pair(case, client, opened.pop(), side == "client").play()
        except (AssertionError, asyncio.IncompleteReadError, TimeoutError) as error:
            raise AssertionError(f"{case.name}: {error!r}") from error
        finally:
            client.client.close()

    async def scene(stage: Stage) -> None:
        try:
            for case in CASES:
                if case.name.partition(".")[0] == group:
                    await one(stage, case)
        finally:
            over.set()

    play(scene, script, kind=RealtimeWorker)
