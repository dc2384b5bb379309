"""Routes that the workers' engines answer: one of them, or all of them."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply, json_reply
from smgproxy.core.errors import NoWorkers, UpstreamError
from smgproxy.core.message import (
    FORWARDED_PREFIX,
    FORWARDED_TO_WORKER,
    WITHHELD_FROM_CLIENT,
    Headers,
    RequestHead,
)
from smgproxy.fleet.outside import Fetch, bearer
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker

# /health_generate makes the engine generate a token behind whatever it is doing.
RELAY_SECS = 60
FLUSH_SECS = 45
_LIMIT_BYTES = 16 * 1024 * 1024


class Engines:
    """Asks engines on a client's behalf."""

    __slots__ = ("_registry", "_fetch")

    def __init__(self, registry: Registry, fetch: Fetch) -> None:
        self._registry = registry
        self._fetch = fetch

    async def relay(self, request: ControlRequest) -> Reply:
        """A ready worker's answer under the same path. Raises NoWorkers."""
        ready = self._registry.ready()
        if not ready:
            raise NoWorkers()
        worker = ready[0]
        answer = await self._fetch(
            worker,
            "GET",
            request.head.path,
            headers=_asked_with(request.head, worker),
            timeout_secs=RELAY_SECS,
            limit_bytes=_LIMIT_BYTES,
        )
        headers = [
            field for field in answer.headers if field[0] not in WITHHELD_FROM_CLIENT
        ]
        return Reply(answer.status, answer.body, b"", headers)

    async def flush_cache(self, request: ControlRequest) -> Reply:
        """POST /flush_cache: to every worker at the same time."""
        workers = self._registry.all()
        faults = await asyncio.gather(*(self._flush(worker) for worker in workers))
        outcomes = list(zip(workers, faults, strict=True))
        failed = [
            {"worker": worker.url, "error": why} for worker, why in outcomes if why
        ]
        total = len(workers)
        flushed = total - len(failed)
        answer: dict[str, Any] = {
            "status": "partial_success" if failed else "success",
            "message": f"Cache flush: {flushed} succeeded, {len(failed)} failed",
            "workers_flushed": flushed,
            "total_http_workers": total,
            "total_grpc_workers": 0,
            "total_zmq_workers_skipped": 0,
            "total_workers": total,
        }
        if failed:
            urls = [worker.url for worker, why in outcomes if not why]
            return json_reply(206, {**answer, "successful": urls, "failed": failed})
        answer["message"] = (
            f"Successfully flushed cache on all {total} workers"
            if total
            else "No workers available for cache flush"
        )
        return json_reply(200, answer)

    async def _flush(self, worker: Worker) -> str:
        """Flush one worker's cache; why it could not be done, or nothing."""
        url = worker.url.rstrip("/") + "/flush_cache"
        try:
            answer = await self._fetch(
                worker,
                "POST",
                "/flush_cache",
                headers=[(b"content-length", b"0"), *bearer(worker)],
                timeout_secs=FLUSH_SECS,
                limit_bytes=_LIMIT_BYTES,
            )
        except UpstreamError as error:
            return f"flush_cache failed for worker {url}: {error.cause}"
        if 200 <= answer.status < 300:
            return ""
        return f"flush_cache failed for worker {url}: HTTP {_status(answer.status)}"


def _asked_with(head: RequestHead, worker: Worker) -> Headers:
    """The client's headers as far as workers see them, the first value of each.

    A worker's own key goes instead of the client's credential: these routes are
    public, so nobody has looked at that.
    """
    own = bearer(worker)
    headers = [
        (name, value)
        for name, value in head.headers
        if (name in FORWARDED_TO_WORKER or name.startswith(FORWARDED_PREFIX))
        and head.first[name] is value
        and not (own and name == b"authorization")
    ]
    return [*own, *headers]


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
