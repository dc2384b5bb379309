"""Which of the routes the gateway answers itself ask for a key."""

from __future__ import annotations

import pytest

from smgproxy.core.access import Access
from tests.control.stage import Stage

PUBLIC = (
    *("/health", "/liveness", "/readiness", "/health_generate"),
    *("/v1/models", "/v1/models/m", "/loads", "/openapi.json"),
    *("/get_model_info", "/get_server_info"),
)
CONTROL = ("/workers", "/workers/some-id", "/flush_cache", "/get_loads")


@pytest.mark.parametrize(
    ("path", "access"),
    [
        *((path, Access.PUBLIC) for path in PUBLIC),
        *((path, Access.CONTROL) for path in CONTROL),
    ],
)
def test_access_of_each_route(path: str, access: Access) -> None:
    route, _ = Stage().routes.match(path)
    assert route is not None and route.access is access
