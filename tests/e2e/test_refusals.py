"""The corpus of malformed requests, sent to one real gateway over real sockets.

tests/wire reads the same bytes without a socket. Here each case aims at an inference
route, with a body that would be served, so that whatever slips through reaches the
worker and is seen there.
"""

from __future__ import annotations

import asyncio

from tests.e2e.stage import Stage, play
from tests.fakes.client import Client, post
from tests.wire import bad_bodies, bad_heads
from tests.wire.case import RequestCase

CASES = (*bad_heads.CASES, *bad_bodies.CASES)
REFUSED = [case for case in CASES if case.refused]
# Five bytes, as the corpus' "hello", and an object that any worker may be asked for.
BODY = b"{   }"


def aimed(data: bytes) -> bytes:
    """The same fault in a request that is otherwise worth forwarding."""
    return (
        data.replace(b" /a ", b" /generate ")
        .replace(b" /a\r", b" /generate\r")
        .replace(b"Host: h\r\n", b"Host: h\r\nContent-Type: application/json\r\n")
        .replace(b"hello", BODY)
    )


async def statuses(client: Client) -> list[int]:
    """The answers up to the gateway's close, each whole."""
    found: list[int] = []
    while True:
        try:
            answer = await client.answer()
        except (asyncio.IncompleteReadError, ConnectionError):
            return found
        assert answer.is_whole
        found.append(answer.status)


async def is_refused(stage: Stage, case: RequestCase) -> None:
    """The case is answered as the corpus says, and its connection closed."""
    client = await stage.client()
    await client.send(aimed(case.data))
    async with asyncio.timeout(5):
        found = await statuses(client)
    client.close()
    if len(case.served) == 0:
        assert found == [case.refused], case.name
    elif case.ends:
        # Bytes that are no request, behind one that was.
        assert found[1:] == [case.refused], case.name
    else:
        # A head that was fine: its exchange answers for the broken body.
        assert found == [400], case.name


def test_every_malformed_request_is_refused_and_none_reaches_a_worker() -> None:
    async def scene(stage: Stage) -> None:
        other = await stage.client()
        received = stage.worker.received
        for case in REFUSED:
            await is_refused(stage, case)
            # At most the whole requests in front of the fault.
            whole = [served for served in case.served if served.body]
            assert [one.body for one in received] == [BODY] * len(whole), case.name
            received.clear()
            assert (await other.ask(post())).status == 200, case.name
            received.clear()
        assert sum(stage.gateway.listener.malformed.values()) == len(REFUSED)
        other.close()

    play(scene)


def test_the_aim_is_good() -> None:
    """The corpus' own good request is forwarded, so a bad one would be."""

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        good = {case.name: case for case in CASES if not case.refused}
        for name in ("length_with_zeros", "several_chunks", "chunked"):
            data = aimed(good[name].data).replace(b"he\r\n3\r\nllo", b"{ \r\n3\r\n  }")
            await client.send(data)
            assert (await client.answer()).status == 200
            # The request behind it, to a path that there is not.
            assert (await client.answer()).status == 404
        assert [one.body for one in stage.worker.received] == [BODY] * 3
        client.close()

    play(scene)
