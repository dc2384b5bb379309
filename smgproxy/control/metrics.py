"""GET /metrics, on its own listener."""

from __future__ import annotations

from collections.abc import Callable

from smgproxy.api.endpoints import ControlRequest, Routes
from smgproxy.api.replies import Reply
from smgproxy.core.access import Access

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def metrics_routes(render: Callable[[], bytes]) -> Routes:
    """The one route of the metrics listener."""

    async def show(request: ControlRequest) -> Reply:
        return Reply(200, render(), CONTENT_TYPE)

    routes = Routes()
    routes.add("GET", "/metrics", show, Access.PUBLIC)
    return routes
