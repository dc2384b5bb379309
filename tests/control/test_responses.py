from __future__ import annotations

import pytest

from smgproxy.control.responses import ResponseNotFound
from smgproxy.core.access import Access
from tests.control.stage import Stage


def test_no_response_is_stored_and_none_found() -> None:
    with pytest.raises(ResponseNotFound) as caught:
        Stage().ask("GET", "/v1/responses/" + "r" * 1000)
    assert (caught.value.status, caught.value.code) == (404, "not_found")
    assert len(caught.value.message) < 200


def test_who_may_create_a_response_may_ask_for_one() -> None:
    route, _ = Stage().routes.match("/v1/responses/resp_1")
    assert route is not None and route.access is Access.SERVING
