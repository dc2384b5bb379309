"""An exchange that is over before its task has taken its first step."""

from __future__ import annotations

import asyncio
import gc

import pytest

from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.core.message import RequestHead
from smgproxy.downstream.http1 import Http1Connection
from tests.core.scripted import ScriptedSink, ScriptedSource
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import CHAT, STREAM, post
from tests.fakes.transport import FakeTransport
from tests.fakes.worker import Connection, Received

REQUESTS = {
    "whole": post(),
    "stream": post(STREAM),
    "half": post()[:-5],
    "pipelined": post() + post() + post(),
    "awaits_continue": post(headers="Expect: 100-continue\r\n")[: -len(CHAT)],
    "unknown": b"GET /nope HTTP/1.1\r\nHost: a\r\n\r\n",
    "control": b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n",
}


def exchanges() -> list[Exchange]:
    """Those that exist anywhere, a leak's among them."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, Exchange)]


def serving() -> list[str]:
    """The tasks of exchanges, by name."""
    coroutines = [task.get_coro() for task in asyncio.all_tasks()]
    names = [getattr(one, "__qualname__", "") for one in coroutines]
    return [name for name in names if name == "Dispatcher._serve"]


async def assert_untouched(stage: Stage) -> None:
    """Neither the gateway nor a worker knows that there was a request."""
    gateway = stage.gateway
    await eventually(lambda: not serving())
    assert not gateway.dispatcher.running
    assert (gateway.http.in_flight, gateway.http.requests) == (0, {})
    assert gateway.http.responses == {}
    assert gateway.listener.open_connections == 0
    assert (stage.worker.accepted, stage.records[0].load) == (0, 0)
    assert exchanges() == []


@pytest.mark.parametrize("leaves_by", ["reset", "fin"])
@pytest.mark.parametrize("name", REQUESTS)
def test_a_client_that_leaves_in_the_turn_it_asked_leaves_nothing(
    name: str, leaves_by: str
) -> None:
    async def scene(stage: Stage) -> None:
        transport = FakeTransport(Http1Connection(stage.gateway.listener))
        transport.peer_sends(REQUESTS[name])
        assert len(exchanges()) == 1
        if leaves_by == "reset":
            transport.peer_resets()
        else:
            transport.peer_closes()
            transport.turn()
        assert transport.is_lost
        assert transport.sent == b""
        await assert_untouched(stage)

    play(scene)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_before_the_first_step_leaves_nothing(verdict: Verdict) -> None:
    async def scene(stage: Stage) -> None:
        source, sink = ScriptedSource(), ScriptedSink()
        head = RequestHead("POST", "/v1/chat/completions", "", [])
        exchange = Exchange(head, source, sink, "127.0.0.1", 1.0)
        stage.gateway.dispatcher.on_exchange(exchange)
        task = exchange.task
        assert task is not None
        exchange.cancel(verdict)
        await asyncio.wait((task,), timeout=1)
        assert task.cancelled()
        assert (sink.pieces, source.wanted) == ([], 0)
        del task, exchange
        await assert_untouched(stage)

    play(scene)


def test_many_that_leave_at_once_do_not_disturb_one_that_stays() -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(request.body)

    async def scene(stage: Stage) -> None:
        for _ in range(200):
            transport = FakeTransport(Http1Connection(stage.gateway.listener))
            transport.peer_sends(post())
            transport.peer_resets()
        client = await stage.client()
        assert (await client.ask(post())).status == 200
        assert len(stage.worker.received) == 1
        client.close()
        await eventually(lambda: stage.gateway.listener.open_connections == 0)
        assert exchanges() == []

    play(scene, script)
