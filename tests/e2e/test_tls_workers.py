"""Workers behind https://: who is believed, what they are shown, how they fail."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import time
from typing import Any

import pytest
import ujson

from smgproxy.fleet.outside import ask
from smgproxy.fleet.worker import HttpPoolSettings, Worker
from tests.e2e.asking import error_of, get
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.certificates import EXPIRED, Authority, Pair
from tests.fakes.client import Answer, chat, post
from tests.fakes.worker import Connection, FakeWorker, Received, Script, say_ok

MODEL = "secure"
BODY = chat("secure", stream=True)


class Secure:
    """A worker behind TLS, registered as the model "secure"."""

    def __init__(
        self, stage: Stage, tls: ssl.SSLContext, script: Script = say_ok
    ) -> None:
        self.fake = FakeWorker(script, tls)
        self.fake.model = MODEL
        self._stage = stage
        self.record = Worker("", "")

    async def __aenter__(self) -> Secure:
        await self.fake.start()
        self.record = self._stage.register(self.fake, HttpPoolSettings())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fake.stop()

    async def ask(self) -> Answer:
        """One request to it, over a connection of its own."""
        client = await self._stage.client()
        answer = await client.ask(post(BODY))
        client.close()
        return answer


@pytest.fixture(scope="module")
def pair(authority: Authority) -> Pair:
    return authority.issue("worker")


def trusting(authority: Authority, **more: Any) -> dict[str, Any]:
    return {"ca_cert_paths": (authority.path,), **more}


def test_requests_share_a_connection(authority: Authority, pair: Pair) -> None:
    async def scene(stage: Stage) -> None:
        async with Secure(stage, pair.serving()) as worker:
            for _ in range(3):
                assert (await worker.ask()).body == b'{"ok":true}'
            assert worker.fake.accepted == 1
            assert stage.gateway.upstream.counts()[worker.fake.url] == (1, 0)

    play(scene, tls=trusting(authority))


def test_registration_probes_and_requests_use_tls(
    authority: Authority, pair: Pair
) -> None:
    async def scene(stage: Stage) -> None:
        fake = FakeWorker(tls=pair.serving())
        fake.model = MODEL
        await fake.start()
        client = await stage.client()
        try:
            body = ujson.dumps({"url": fake.url}).encode()
            assert (await client.ask(post(body, "/workers"))).status == 202
            await eventually(lambda: stage.records[-1].model_id == MODEL)
            await eventually(lambda: stage.records[-1].is_ready)
            assert (await client.ask(post(BODY))).status == 200
            listed = ujson.loads((await client.ask(get("/workers"))).body)
            assert fake.url in [one["url"] for one in listed["workers"]]
        finally:
            client.close()
            await fake.stop()

    play(scene, tls=trusting(authority))


async def unreachable(stage: Stage, worker: Secure, why: str) -> None:
    """It fails as one that is down does, and the log of its probes says why."""
    answer = await worker.ask()
    assert answer.status == 500
    assert error_of(answer)["code"] == "call_upstream_connection_failed"
    assert worker.fake.received == []
    assert worker.record.backend_errors == 1
    told = await ask(
        stage.gateway.upstream.fetch, worker.record, "/health", with_key=False
    )
    assert why in told.why
    assert stage.gateway.upstream.counts()[worker.fake.url] == (0, 0)


def test_worker_of_an_unknown_ca_is_not_believed(
    authority: Authority, stranger: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        async with Secure(stage, stranger.issue("worker").serving()) as worker:
            await unreachable(stage, worker, "unable to get local issuer certificate")

    play(scene, tls=trusting(authority))


def test_worker_of_another_name_is_not_believed(authority: Authority) -> None:
    async def scene(stage: Stage) -> None:
        tls = authority.issue("other", "gpu7.example").serving()
        async with Secure(stage, tls) as worker:
            await unreachable(
                stage, worker, "IP address mismatch, certificate is not valid"
            )

    play(scene, tls=trusting(authority))


def test_worker_with_an_expired_certificate_is_not_believed(
    authority: Authority,
) -> None:
    async def scene(stage: Stage) -> None:
        tls = authority.issue("expired", not_after=EXPIRED).serving()
        async with Secure(stage, tls) as worker:
            await unreachable(stage, worker, "certificate has expired")

    play(scene, tls=trusting(authority))


async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that waits for more than comes."""
    await reader.read(-1)
    writer.close()


async def plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A server that answers whatever it is sent, as HTTP without TLS."""
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
    writer.close()


@pytest.mark.parametrize(
    ("served", "why"),
    [(plainly, "wrong version number"), (silence, "connecting took too long")],
)
def test_worker_that_does_not_shake_hands_is_no_secure_worker(
    served: Any, why: str, authority: Authority
) -> None:
    async def scene(stage: Stage) -> None:
        async with await asyncio.start_server(served, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            pool = HttpPoolSettings(connect_timeout_secs=0.3)
            record = Worker("id", f"https://127.0.0.1:{port}", http_pool=pool)
            told = await ask(
                stage.gateway.upstream.fetch, record, "/health", with_key=False
            )
            assert told.why == why
            assert stage.gateway.upstream.counts()[record.url] == (0, 0)

    play(scene, tls=trusting(authority))


def test_worker_that_wants_a_certificate_is_shown_ours(
    authority: Authority, pair: Pair
) -> None:
    shown = authority.issue("gateway", "gateway.example")
    flags = {"client_cert_path": shown.cert, "client_key_path": shown.key}

    async def scene(stage: Stage) -> None:
        async with Secure(stage, pair.serving(authority.path)) as worker:
            assert (await worker.ask()).status == 200

    play(scene, tls=trusting(authority, **flags))


@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_worker_that_wants_a_certificate_refuses_us_without_one(
    version: str, authority: Authority, pair: Pair
) -> None:
    async def scene(stage: Stage) -> None:
        tls = pair.serving(authority.path)
        tls.maximum_version = ssl.TLSVersion[version]
        async with Secure(stage, tls) as worker:
            answer = await worker.ask()
            assert answer.status == 500
            assert str(error_of(answer)["code"]).startswith("call_upstream_")
            assert worker.fake.received == []
            assert stage.gateway.upstream.counts()[worker.fake.url] == (0, 0)

    play(scene, tls=trusting(authority))


def test_a_large_upload_and_a_large_answer_arrive_whole(
    authority: Authority, pair: Pair
) -> None:
    big = bytes(range(256)) * 32768
    body = chat("secure", pad="x" * (20 << 20))

    async def script(connection: Connection, request: Received) -> None:
        assert request.body == body
        await connection.answer(big, kind="text")

    async def scene(stage: Stage) -> None:
        async with Secure(stage, pair.serving(), script) as worker:
            client = await stage.client()
            answer = await client.ask(post(body))
            assert (answer.status, answer.body == big) == (200, True)
            client.close()
            assert worker.fake.accepted == 1

    play(scene, tls=trusting(authority))


def test_a_client_that_leaves_cuts_its_worker(authority: Authority, pair: Pair) -> None:
    cut_at = 0.0

    async def script(connection: Connection, request: Received) -> None:
        nonlocal cut_at
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await connection.until_gone()
        cut_at = time.monotonic()

    async def scene(stage: Stage) -> None:
        async with Secure(stage, pair.serving(), script):
            client = await stage.client()
            await client.send(post(BODY))
            await client.head()
            await client.chunk()
            left_at = time.monotonic()
            client.finish()
            await eventually(lambda: cut_at)
            assert cut_at - left_at < 0.5
            client.close()

    play(scene, tls=trusting(authority))


@pytest.mark.parametrize("is_secure_client", [False, True])
def test_a_worker_that_closes_behind_its_stream_loses_nothing_of_it(
    is_secure_client: bool, authority: Authority, pair: Pair
) -> None:
    """A slow reader makes the gateway stop reading; then the worker's end comes."""
    size = 24 << 20

    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n" % size
        )
        await connection.send(b"x" * size)
        connection.close()

    async def scene(stage: Stage) -> None:
        async with Secure(stage, pair.serving(), script):
            tls = authority.trusting() if is_secure_client else None
            client = await stage.client(8192, tls)
            await client.send(post(BODY))
            await client.head()
            read = 0
            while read < size:
                piece = await client.reader.read(1 << 16)
                assert piece, f"cut after {read} bytes"
                read += len(piece)
            client.reset()

    flags: dict[str, Any] = {}
    if is_secure_client:
        shown = authority.issue("server")
        flags = {"tls_cert_path": shown.cert, "tls_key_path": shown.key}
    play(scene, tls=trusting(authority, **flags))


def test_a_body_cut_by_a_bare_fin_is_not_taken_for_a_whole_one(
    authority: Authority, pair: Pair
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[1,2"
        )
        number = connection.writer.get_extra_info("socket").fileno()
        with socket.socket(fileno=os.dup(number)) as sock:
            sock.shutdown(socket.SHUT_WR)
        await connection.until_gone()

    async def scene(stage: Stage) -> None:
        async with Secure(stage, pair.serving(), script) as worker:
            assert worker.fake.accepted == 0
            client = await stage.client()
            answer = await client.ask(post(chat("secure")))
            assert error_of(answer)["code"] == "read_response_body_failed"
            client.close()

    play(scene, tls=trusting(authority))
