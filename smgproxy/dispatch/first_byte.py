"""--first-byte-timeout-secs: a worker that sends nothing for too long is given up."""

from __future__ import annotations

import asyncio

from smgproxy.core.errors import FirstByteTimeout
from smgproxy.core.message import ResponseHead, WorkerRequest
from smgproxy.fleet.worker import Worker
from smgproxy.upstream.calls import Upstream
from smgproxy.upstream.leg import Leg


class FirstByteLimit:
    """Calls workers as ``Upstream`` does, and waits no longer than this for a head.

    In front of the upstream, so that only those who ask for it pay for a timer.
    """

    __slots__ = ("_upstream", "_secs")

    def __init__(self, upstream: Upstream, secs: float) -> None:
        self._upstream = upstream
        self._secs = secs

    async def call(
        self,
        worker: Worker,
        request: WorkerRequest,
        timeout_secs: float,
        *,
        is_one_shot: bool = False,
    ) -> tuple[Leg, ResponseHead]:
        """``Upstream.call``, dialling and a resend included. Raises UpstreamError."""
        try:
            async with asyncio.timeout(self._secs):
                return await self._upstream.call(
                    worker, request, timeout_secs, is_one_shot=is_one_shot
                )
        except TimeoutError:
            raise FirstByteTimeout(worker.url, self._secs) from None
