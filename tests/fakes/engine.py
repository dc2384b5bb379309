"""A worker's engine without a socket: what it answers to the gateway's own requests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import ujson

from smgproxy.core.errors import ConnectFailed, SendFailed
from smgproxy.core.message import Headers
from smgproxy.fleet.outside import PROBE_LIMIT_BYTES
from smgproxy.fleet.worker import Worker

JSON = [(b"content-type", b"application/json")]


class FakeAnswer:
    """A whole answer."""

    def __init__(self, status: int, body: bytes, headers: Headers) -> None:
        self.status = status
        self.body = body
        self.headers = headers


class FakeEngines:
    """``fetch`` for any number of engines, each a table from path to answer.

    An answer is a status, a FakeAnswer, or what a 200 holds: JSON, or bytes. A path
    that is not in the table is answered 404; a URL that is no engine refuses.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str, Headers]] = []
        # By which versions of HTTP an engine answers, if not by 1.1 alone; True is 2.
        self.http2: dict[str, set[bool]] = {}
        self.asked_by_http2: list[bool] = []
        # Awaited before every answer: a place to be slow in.
        self.before: Callable[[], Awaitable[None]] | None = None

    async def fetch(
        self,
        worker: Worker,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Headers | None = None,
        timeout_secs: float,
        limit_bytes: int = PROBE_LIMIT_BYTES,
    ) -> FakeAnswer:
        """Answer as the worker's engine."""
        assert timeout_secs > 0
        self.asked.append((worker.url, f"{method} {path}", headers or []))
        self.asked_by_http2.append(worker.http2)
        if self.before is not None:
            await self.before()
        table = self.tables.get(worker.url)
        if table is None:
            raise ConnectFailed(f"error sending request for url ({worker.url})", "down")
        if worker.http2 not in self.http2.get(worker.url, {False}):
            raise SendFailed("error sending request", "another version of HTTP")
        answer = table.get(path, 404)
        if isinstance(answer, FakeAnswer):
            return answer
        if isinstance(answer, int):
            return FakeAnswer(answer, b"", [])
        if isinstance(answer, bytes):
            return FakeAnswer(200, answer, [])
        return FakeAnswer(200, ujson.dumps(answer).encode(), JSON)

    def paths(self, url: str) -> list[str]:
        """What a worker was asked for, in order; GET is left out."""
        return [
            line.removeprefix("GET ") for asked, line, _ in self.asked if asked == url
        ]


def models(owner: str, name: str = "m1", **more: Any) -> dict[str, Any]:
    """A /v1/models answer."""
    entry = {"id": name, "object": "model", "owned_by": owner, **more}
    return {"object": "list", "data": [entry]}


def sglang(**more: Any) -> dict[str, Any]:
    """An SGLang engine's table."""
    return {
        "/health": b"",
        "/v1/models": models("sglang"),
        "/server_info": {"version": "0.5", "context_length": 8192},
        "/model_info": {"model_type": "llama"},
        **more,
    }
