"""Exchange: commit, complete, cancel."""

from __future__ import annotations

import asyncio

import pytest

from smgproxy.core.exchange import Exchange, Phase, Verdict
from smgproxy.core.message import RequestHead
from tests.core.scripted import ScriptedSink, ScriptedSource


@pytest.fixture
def exchange() -> Exchange:
    head = RequestHead("GET", "/", "", [])
    return Exchange(head, ScriptedSource(), ScriptedSink(), "127.0.0.1", 1.0)


def test_an_exchange_commits_once(exchange: Exchange) -> None:
    exchange.commit()
    assert exchange.phase == Phase.COMMITTED
    with pytest.raises(AssertionError):
        exchange.commit()


def test_a_client_that_is_gone_ends_the_exchange(exchange: Exchange) -> None:
    exchange.cancel(Verdict.CLIENT_GONE)
    assert exchange.phase == Phase.DONE
    assert exchange.verdict is Verdict.CLIENT_GONE


def test_a_drain_leaves_room_for_an_answer(exchange: Exchange) -> None:
    exchange.cancel(Verdict.DRAINED)
    assert exchange.phase == Phase.OPENED
    assert exchange.verdict is Verdict.DRAINED


def test_the_first_verdict_counts(exchange: Exchange) -> None:
    exchange.cancel(Verdict.PREEMPTED)
    exchange.cancel(Verdict.DRAINED)
    assert exchange.verdict is Verdict.PREEMPTED


def test_a_client_that_leaves_before_its_answer_is_gone(exchange: Exchange) -> None:
    exchange.cancel(Verdict.PREEMPTED)
    exchange.cancel(Verdict.CLIENT_GONE)
    assert exchange.verdict is Verdict.CLIENT_GONE
    assert exchange.phase == Phase.DONE


def test_a_complete_exchange_cannot_be_cancelled(exchange: Exchange) -> None:
    exchange.complete()
    exchange.cancel(Verdict.CLIENT_GONE)
    assert exchange.verdict is None


def test_complete_wakes_who_waits_for_the_end(exchange: Exchange) -> None:
    async def scene() -> None:
        exchange.done = asyncio.get_running_loop().create_future()
        exchange.complete()
        await exchange.done

    asyncio.run(scene())
    assert exchange.phase == Phase.DONE


def test_cancel_cancels_the_task(exchange: Exchange) -> None:
    async def wait_for_ever() -> None:
        await asyncio.get_running_loop().create_future()

    async def scene() -> None:
        exchange.task = asyncio.create_task(wait_for_ever())
        await asyncio.sleep(0)
        exchange.cancel(Verdict.CLIENT_GONE)
        with pytest.raises(asyncio.CancelledError):
            await exchange.task

    asyncio.run(scene())
