"""The OpenAI Node client against what ``make run`` starts."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.process import MODEL, RunningGateway, eventually

FOLDER = Path(__file__).parent / "node"


@pytest.fixture(scope="module")
def seen(gateway: RunningGateway) -> Any:
    """What the script of an application saw, in one run."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    if not (FOLDER / "node_modules" / "openai").is_dir():
        pytest.skip("the client is not installed: npm install in tests/e2e/node")
    done = subprocess.run(
        [node, "chat.mjs", f"{gateway.url}/v1", MODEL],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_chat_is_answered(seen: Any) -> None:
    assert seen["plain"]["text"]
    assert seen["plain"]["usage"]["completion_tokens"] > 0


def test_a_chat_stream_joined_is_the_plain_answer(seen: Any) -> None:
    assert seen["stream"]["text"] == seen["plain"]["text"]
    assert seen["stream"]["usage"] == seen["plain"]["usage"]
    assert seen["stream"]["chunks"] > 5


VALUE = {"city": "word", "days": 1}


def test_a_tool_is_called_and_its_result_taken(seen: Any) -> None:
    assert seen["toolCall"] == {
        "name": "weather",
        "arguments": VALUE,
        "reason": "tool_calls",
        "next": "stop",
    }


def test_a_streamed_tool_call_has_arguments_and_usage(seen: Any) -> None:
    assert seen["toolStream"]["arguments"] == VALUE
    assert seen["toolStream"]["usage"]["completion_tokens"] > 2


def test_an_answer_follows_its_schema(seen: Any) -> None:
    assert seen["structured"] == VALUE


def test_log_probabilities_are_told_of_every_token(seen: Any) -> None:
    told = seen["logprobs"]
    assert "".join(one["token"] for one in told["whole"]) == told["text"]
    assert [len(one["top_logprobs"]) for one in told["whole"]] == [2] * 7
    assert told["told"] == told["whole"]


def test_a_completion_is_answered(seen: Any) -> None:
    assert seen["completion"]["text"]
    assert seen["completion"]["tokens"] == 4


def test_embeddings_are_answered(seen: Any) -> None:
    assert len(seen["embeddings"]) == 2 and all(seen["embeddings"])


def test_models_are_listed(seen: Any) -> None:
    assert seen["models"] == [MODEL]


def test_an_unknown_model_is_not_found(seen: Any) -> None:
    assert seen["unknownModel"] == {
        "name": "NotFoundError",
        "status": 404,
        "code": "model_not_found",
    }


@pytest.mark.parametrize("body", ["noMessages", "wrongType"])
def test_a_bad_body_is_a_bad_request(seen: Any, body: str) -> None:
    assert (seen[body]["name"], seen[body]["status"]) == ("BadRequestError", 400)


def test_an_abandoned_stream_leaves_no_load(seen: Any, gateway: RunningGateway) -> None:
    assert seen["abandoned"]

    def load() -> int:
        workers = gateway.get("/workers")["workers"]
        return sum(int(worker["load"]) for worker in workers)

    eventually(lambda: load() == 0, 2.0)
