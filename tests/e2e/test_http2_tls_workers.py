"""HTTP/2 to https:// workers: what is offered, what is chosen, what is spoken."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from smgproxy.fleet.outside import ask as probe
from smgproxy.fleet.worker import HttpPoolSettings, Worker
from tests.e2e.stage import Stage, play
from tests.fakes.certificates import Authority, Pair
from tests.fakes.client import post
from tests.fakes.http2_worker import H2Worker
from tests.fakes.worker import FakeWorker

BODY = b'{"model":"secure","messages":[{"role":"user","content":"hi"}]}'
BOTH = HttpPoolSettings(prefers_http2=True)


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("http2-worker")


def play_secure(scene: Any, fake: FakeWorker, authority: Authority) -> None:
    async def whole(stage: Stage) -> None:
        fake.model = "secure"
        await fake.start()
        try:
            await scene(stage)
        finally:
            await fake.stop()

    play(whole, tls={"ca_cert_paths": (authority.path,)})


async def ask_three_times(stage: Stage, worker: Worker, fake: FakeWorker) -> None:
    for _ in range(3):
        client = await stage.client()
        assert (await client.ask(post(BODY))).status == 200
        client.close()
    assert fake.accepted == 1
    assert stage.gateway.upstream.counts()[worker.url] == (1, 0)


def test_a_worker_that_is_offered_both_may_choose_http2(
    authority: Authority, pair: Pair
) -> None:
    fake = H2Worker(tls=pair.serving())

    async def scene(stage: Stage) -> None:
        worker = stage.register(fake, BOTH)
        await ask_three_times(stage, worker, fake)
        assert fake.received[0].get(":scheme") == "https"
        assert not worker.http2  # the contract's: it says what was found without TLS

    play_secure(scene, fake, authority)


@pytest.mark.parametrize("alpn", [["http/1.1"], None])
def test_a_worker_that_is_offered_both_may_choose_http11(
    alpn: list[str] | None, authority: Authority, pair: Pair
) -> None:
    tls: ssl.SSLContext = pair.serving()
    if alpn is not None:
        tls.set_alpn_protocols(alpn)
    fake = FakeWorker(tls=tls)

    async def scene(stage: Stage) -> None:
        await ask_three_times(stage, stage.register(fake, BOTH), fake)

    play_secure(scene, fake, authority)


def test_without_the_flag_http2_is_not_offered(
    authority: Authority, pair: Pair
) -> None:
    tls = pair.serving()
    tls.set_alpn_protocols(["h2", "http/1.1"])
    fake = FakeWorker(tls=tls)

    async def scene(stage: Stage) -> None:
        worker = stage.register(fake, HttpPoolSettings())
        await ask_three_times(stage, worker, fake)

    play_secure(scene, fake, authority)


def test_a_worker_known_to_speak_http2_is_offered_nothing_else(
    authority: Authority, pair: Pair
) -> None:
    fake = FakeWorker(tls=pair.serving())

    async def scene(stage: Stage) -> None:
        worker = stage.register(fake, HttpPoolSettings(http2=True))
        worker.http2 = True
        told = await probe(
            stage.gateway.upstream.fetch, worker, "/health", with_key=False
        )
        assert told.why == "the worker does not speak HTTP/2"
        assert stage.gateway.upstream.counts()[worker.url] == (0, 0)

    play_secure(scene, fake, authority)
