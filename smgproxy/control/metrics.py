"""GET /metrics, on its own listener."""

from __future__ import annotations

import asyncio

from smgproxy.api.endpoints import ControlRequest, Routes
from smgproxy.api.replies import Reply
from smgproxy.core.access import Access
from smgproxy.telemetry.metrics import Exposition

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def metrics_routes(exposition: Exposition) -> Routes:
    """The one route of the metrics listener."""

    async def show(request: ControlRequest) -> Reply:
        # Taken between two turns of the loop, so that its numbers fit together; to
        # write down the thousands of lines of a large fleet is for a thread.
        taken = exposition.snapshot()
        loop = asyncio.get_running_loop()
        page = await loop.run_in_executor(None, exposition.page, taken)
        return Reply(200, page, CONTENT_TYPE)

    routes = Routes()
    routes.add("GET", "/metrics", show, Access.PUBLIC)
    return routes
