"""Which workers are spoken to by HTTP/2, found out when they register."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import ujson

from smgproxy.fleet.worker import Worker
from tests.e2e.asking import get
from tests.e2e.multiplexed import MODEL, ask
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import post
from tests.fakes.http2_worker import H2Worker
from tests.fakes.worker import FakeWorker


async def registered(stage: Stage, fake: FakeWorker, **spec: Any) -> Worker | None:
    """A worker brought up by POST /workers; None when that failed."""
    client = await stage.client()
    body = ujson.dumps({"url": fake.url, **spec}).encode()
    answer = await client.ask(post(body, "/workers"))
    assert answer.status == 202
    worker_id = ujson.loads(answer.body)["worker_id"]
    fleet = stage.gateway.fleet
    await eventually(
        lambda: stage.gateway.registry.get(worker_id)
        or worker_id not in fleet._pending  # noqa: SLF001
    )
    found = stage.gateway.registry.get(worker_id)
    if found is not None:
        shown = ujson.loads((await client.ask(get(f"/workers/{worker_id}"))).body)
        assert shown["http2"] is found.http2
    client.close()
    return found


def play_registration(
    scene: Callable[[Stage, FakeWorker], Awaitable[None]],
    fake: FakeWorker,
    **rooms: Any,
) -> None:
    async def whole(stage: Stage) -> None:
        fake.model = MODEL
        await fake.start()
        try:
            await scene(stage, fake)
        finally:
            await fake.stop()

    play(whole, **rooms)


PREFERRED: dict[str, Any] = {"upstream": {"upstream_http2": True}}


def test_without_the_flag_http2_is_not_tried() -> None:
    async def scene(stage: Stage, fake: FakeWorker) -> None:
        worker = await registered(stage, fake)
        assert worker is not None and not worker.http2
        assert len([one for one in fake.probed if one.path == "/health"]) >= 2

    play_registration(scene, FakeWorker())


def test_with_the_flag_a_worker_that_speaks_it_is_spoken_to_by_http2() -> None:
    async def scene(stage: Stage, fake: FakeWorker) -> None:
        worker = await registered(stage, fake)
        assert worker is not None and worker.http2
        assert (await ask(stage)).status == 200
        assert fake.received[0].get(":scheme") == "http"

    play_registration(scene, H2Worker(), **PREFERRED)


def test_with_the_flag_a_worker_that_does_not_stays_with_http11() -> None:
    async def scene(stage: Stage, fake: FakeWorker) -> None:
        worker = await registered(stage, fake)
        assert worker is not None and not worker.http2
        assert (await ask(stage)).status == 200

    play_registration(scene, FakeWorker(), **PREFERRED)


def test_a_worker_may_be_pinned_to_http2_without_the_flag() -> None:
    async def scene(stage: Stage, fake: FakeWorker) -> None:
        worker = await registered(stage, fake, http_pool={"http2": True})
        assert worker is not None and worker.http2

    play_registration(scene, H2Worker())


def test_a_worker_may_be_pinned_to_http11_despite_the_flag() -> None:
    async def scene(stage: Stage, fake: FakeWorker) -> None:
        worker = await registered(stage, fake, http_pool={"http2": False})
        assert worker is not None and not worker.http2

    play_registration(scene, FakeWorker(), **PREFERRED)


def test_a_worker_pinned_to_http2_that_does_not_speak_it_is_not_registered() -> None:
    async def scene(stage: Stage, fake: FakeWorker) -> None:
        assert await registered(stage, fake, http_pool={"http2": True}) is None

    play_registration(scene, FakeWorker())
