"""The contract's vectors, each against a real gateway and scripted workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes.client import Answer
from tests.fakes.worker import Received
from tests.vectors.capabilities import CONTRADICTED
from tests.vectors.case import Case, Vector, read_vectors
from tests.vectors.judge import same_body

VECTORS = read_vectors()
INVALID_REQUEST = {"message", "type", "code"}
ENVELOPE = {"type", "code", "message", "param"}


def _parameter(vector: Vector) -> Any:
    why = CONTRADICTED.get(vector["id"])
    marks = [pytest.mark.xfail(reason=why, strict=True)] if why else []
    return pytest.param(vector, id=vector["id"], marks=marks)


@pytest.mark.parametrize("vector", [_parameter(each) for each in VECTORS])
def test_vector(vector: Vector) -> None:
    case = Case(vector)
    answer = case.run()
    _check_answer(vector["expect"], answer)
    _check_worker(vector, case.received)


def test_every_exception_names_a_vector() -> None:
    assert set(CONTRADICTED) <= {vector["id"] for vector in VECTORS}


def _check_answer(expect: dict[str, Any], answer: Answer) -> None:
    assert answer.status == expect["status"], answer.body
    assert answer.is_whole
    for name, value in expect["headers"].items():
        assert answer.get(name) == value, (name, answer.headers)
    if "body" in expect:
        assert answer.body == expect["body"].encode()
    _check_shape(expect["body_shape"], answer)
    if "error_type" in expect or "error_code" in expect:
        error = json.loads(answer.body)["error"]
        assert error["type"] == expect["error_type"]
        if "error_code" in expect:
            codes = [expect["error_code"], expect.get("error_code_alt")]
            assert error["code"] in codes, answer.body


def _check_shape(shape: str, answer: Answer) -> None:
    if shape == "empty":
        assert answer.body == b""
    elif shape == "json":
        json.loads(answer.body)
    elif shape == "invalid_request":
        assert set(json.loads(answer.body)["error"]) == INVALID_REQUEST
        assert answer.get("x-smg-error-code") is None
    elif shape == "envelope":
        error = json.loads(answer.body)["error"]
        assert set(error) == ENVELOPE
        assert error["param"] is None
        assert answer.get("x-smg-error-code") == str(error["code"])
    elif shape == "anthropic_error":
        body = json.loads(answer.body)
        assert body["type"] == "error"
        assert set(body["error"]) == {"type", "message"}


def _check_worker(vector: Vector, received: list[Received]) -> None:
    worker = vector["worker"]
    if worker is None:
        assert received == []
        return
    assert len(received) == worker.get("attempts", 1)
    last = received[-1]
    assert last.path == worker["path"]
    assert same_body(vector, last.body) is None
    if "headers" in worker:
        got = {name: value for name, value in last.headers if name != "host"}
        want = dict(worker["headers"])
        if "content-length" in want:
            want["content-length"] = str(len(last.body))
        assert got == want
