"""``smg openapi``: the description of the API on standard output."""

from __future__ import annotations

import json

import pytest

from smgproxy.cli import main


def test_openapi_prints_the_description(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert "/v1/chat/completions" in described["paths"]


def test_openapi_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["openapi", "x"]) == 2
    assert "smg openapi: takes no arguments" in capsys.readouterr().err
