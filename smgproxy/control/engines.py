"""Routes that the workers' engines answer: one of them, or all of them."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from smgproxy.api.endpoints import ControlRequest
from smgproxy.api.replies import Reply, json_reply
from smgproxy.core.errors import NoWorkers, UpstreamError
from smgproxy.core.message import WITHHELD_FROM_CLIENT
from smgproxy.fleet.outside import Fetch, bearer
from smgproxy.fleet.registry import Registry
from smgproxy.fleet.worker import Worker

# /health_generate makes the engine generate a token behind whatever it is doing.
RELAY_SECS = 60
FLUSH_SECS = 45
_LIMIT_BYTES = 16 * 1024 * 1024


class Engines:
    """Asks engines on a client's behalf, with the workers' own keys."""

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
            headers=bearer(worker),
            timeout_secs=RELAY_SECS,
            limit_bytes=_LIMIT_BYTES,
        )
        kind = b"application/octet-stream"
        headers = []
        for name, value in answer.headers:
            if name == b"content-type":
                kind = value
            elif name not in WITHHELD_FROM_CLIENT:
                headers.append((name, value))
        return Reply(answer.status, answer.body, kind, headers)

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


def _status(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
