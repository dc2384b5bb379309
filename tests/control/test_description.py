"""GET /openapi.json."""

from __future__ import annotations

import json

import pytest

from smgproxy.cli import main
from tests.control.stage import Stage


def test_the_gateway_shows_what_smg_openapi_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reply = Stage().ask("GET", "/openapi.json")
    assert (reply.status, reply.content_type) == (200, b"application/json")
    assert main(["openapi"]) == 0
    assert json.loads(reply.body) == json.loads(capsys.readouterr().out)
