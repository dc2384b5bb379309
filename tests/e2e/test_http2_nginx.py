"""nginx's HTTP/2 in front of a worker: another implementation than ours and h2."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from smgproxy.fleet.worker import HttpPoolSettings, Worker, WorkerState
from tests.e2e.stage import Stage, eventually, play
from tests.fakes.client import Answer, post
from tests.fakes.worker import Connection, FakeWorker, Received, Script, say_ok

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"
pytestmark = pytest.mark.skipif(
    not os.access(NGINX, os.X_OK), reason="nginx is not installed"
)

MODEL = "fronted"
BODY = b'{"model":"fronted","messages":[{"role":"user","content":"hi"}]}'
STREAMED = (
    b'{"model":"fronted","stream":true,"messages":[{"role":"user","content":"hi"}]}'
)
CONF = """
daemon off; master_process off; error_log {folder}/error.log; pid {folder}/pid;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {folder}/1; proxy_temp_path {folder}/2;
  fastcgi_temp_path {folder}/3; uwsgi_temp_path {folder}/4; scgi_temp_path {folder}/5;
  client_max_body_size 100m; keepalive_requests {requests};
  server {{
    listen 127.0.0.1:{port} http2;
    location / {{
      proxy_pass http://127.0.0.1:{worker}; proxy_http_version 1.1;
      proxy_buffering off; proxy_request_buffering off;
    }}
  }}
}}
"""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


class Front:
    """nginx with a worker behind it, and the gateway's record of it."""

    def __init__(self, folder: Path, script: Script) -> None:
        self.folder = folder
        self.fake = FakeWorker(script)
        self.port = free_port()
        self.record = Worker(
            "fronted", f"http://127.0.0.1:{self.port}", http_pool=HttpPoolSettings()
        )
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, requests: int) -> None:
        await self.fake.start()
        conf = self.folder / "nginx.conf"
        values = {"port": self.port, "worker": self.fake.port, "requests": requests}
        conf.write_text(CONF.format(folder=self.folder, **values))
        self._process = await asyncio.create_subprocess_exec(
            NGINX, "-c", str(conf), "-e", str(self.folder / "error.log")
        )
        await eventually(self._listens)

    def _listens(self) -> bool:
        with socket.socket() as sock:
            return sock.connect_ex(("127.0.0.1", self.port)) == 0

    async def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            await self._process.wait()
        await self.fake.stop()


def play_behind(
    folder: Path,
    scene: Callable[[Stage, Front], Awaitable[None]],
    script: Script = say_ok,
    requests: int = 1000,
    **rooms: Any,
) -> None:
    async def whole(stage: Stage) -> None:
        front = Front(folder, script)
        record = front.record
        record.models = [{"id": MODEL}]
        record.state = WorkerState.READY
        record.http2 = True
        try:
            await front.start(requests)
            stage.gateway.registry.remove(stage.records[0])
            stage.gateway.registry.add(record)
            await scene(stage, front)
        finally:
            await front.stop()

    play(whole, **rooms)


async def ask(stage: Stage, body: bytes = BODY) -> Answer:
    return await stage.ask(post(body))


def test_chats_share_a_connection(tmp_path: Path) -> None:
    async def scene(stage: Stage, front: Front) -> None:
        answers = await asyncio.gather(*[ask(stage) for _ in range(50)])
        assert {each.body for each in answers} == {b'{"ok":true}'}
        assert stage.gateway.upstream.counts()[front.record.url] == (1, 0)
        assert front.fake.received[0].body == BODY

    play_behind(tmp_path, scene)


def test_connections_that_nginx_has_had_enough_of_are_replaced_unnoticed(
    tmp_path: Path,
) -> None:
    """It says GOAWAY behind every tenth request."""

    async def scene(stage: Stage, front: Front) -> None:
        for _ in range(6):
            answers = await asyncio.gather(*[ask(stage) for _ in range(30)])
            assert {each.status for each in answers} == {200}
        assert len(front.fake.received) == 180

    play_behind(tmp_path, scene, requests=10)


def test_a_stream_is_relayed_as_it_comes_and_its_client_may_leave(
    tmp_path: Path,
) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.start_stream()
        await connection.chunk(b"data: 1\n\n")
        await connection.until_gone()

    async def scene(stage: Stage, front: Front) -> None:
        clients = [await stage.client() for _ in range(3)]
        for client in clients:
            await client.send(post(STREAMED))
            await client.head()
            assert await client.chunk() == b"data: 1\n\n"
        assert len(front.fake.open) == 3
        for client in clients:
            client.close()
        await eventually(lambda: not front.fake.open)
        assert stage.gateway.upstream.counts()[front.record.url] == (1, 0)

    play_behind(tmp_path, scene, script)


def test_large_bodies_pass_both_ways(tmp_path: Path) -> None:
    big = BODY.replace(b"hi", b"x" * 20_000_000)

    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(request.body)

    async def scene(stage: Stage, front: Front) -> None:
        assert (await ask(stage, big)).body == big

    play_behind(tmp_path, scene, script)


def test_an_upload_streams(tmp_path: Path) -> None:
    async def script(connection: Connection, request: Received) -> None:
        await connection.answer(b"%d" % len(request.body))

    async def scene(stage: Stage, front: Front) -> None:
        answers = await asyncio.gather(
            *[ask(stage, b"x" * 5_000_000) for _ in range(3)]
        )
        assert [each.body for each in answers] == [b"5000000"] * 3

    play_behind(tmp_path, scene, script, retries={"disable_retries": True})
