"""What the fleet needs from outside: asking a worker, waiting, running on its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import ujson

from smgproxy.core.errors import UpstreamError
from smgproxy.core.message import Headers
from smgproxy.fleet.worker import Worker

# The longest answer to a probe that is read; SGLang's server info is the largest.
PROBE_LIMIT_BYTES = 4 * 1024 * 1024

Sleep = Callable[[float], Awaitable[None]]


class Answer(Protocol):
    """A worker's whole answer to a small request."""

    @property
    def status(self) -> int:
        """The status code."""

    @property
    def headers(self) -> Headers:
        """The header fields."""

    @property
    def body(self) -> bytes:
        """The body's bytes."""


class Fetch(Protocol):
    """One small request to a worker. Raises UpstreamError."""

    def __call__(
        self,
        worker: Worker,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        headers: Headers | None = None,
        timeout_secs: float,
        limit_bytes: int = PROBE_LIMIT_BYTES,
    ) -> Awaitable[Answer]:
        """Send it and read the whole answer."""


class Running(Protocol):
    """Something that runs on its own."""

    def cancel(self) -> object:
        """End it at its next wait."""


Spawn = Callable[[Coroutine[Any, Any, None]], Running]


class Told:
    """What a worker said to a probe; status 0 when it said nothing.

    ``why`` is a line for the log; nothing of the worker's own words is in it.
    """

    __slots__ = ("status", "body", "why")

    def __init__(self, status: int, body: bytes = b"", why: str = "") -> None:
        self.status = status
        self.body = body
        self.why = why or f"status {status}"

    @property
    def is_ok(self) -> bool:
        """Whether it answered 2xx."""
        return 200 <= self.status < 300

    def fields(self) -> dict[str, Any] | None:
        """The JSON object of a 2xx answer; None when it holds none."""
        if not self.is_ok:
            return None
        try:
            value = ujson.loads(self.body)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


def bearer(worker: Worker) -> Headers:
    """The credential for the gateway's own requests to a worker."""
    if worker.api_key is None:
        return []
    return [(b"authorization", b"Bearer " + worker.api_key.encode())]


async def ask(
    fetch: Fetch,
    worker: Worker,
    path: str,
    *,
    with_key: bool,
    timeout_secs: float | None = None,
    limit_bytes: int = PROBE_LIMIT_BYTES,
) -> Told:
    """GET a path; None: for as long as the worker's probes may take. Never raises."""
    try:
        answer = await fetch(
            worker,
            "GET",
            path,
            headers=bearer(worker) if with_key else [],
            timeout_secs=timeout_secs or worker.health.timeout_secs,
            limit_bytes=limit_bytes,
        )
    except UpstreamError as error:
        return Told(0, why=error.cause)
    return Told(answer.status, answer.body)
