"""The gateway in front of a real engine; run by ``make test-engine ENGINE_URL=...``."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.e2e.launched import Running, gateway

pytestmark = pytest.mark.real_engine
ENGINE = os.environ.get("ENGINE_URL", "").rstrip("/")
SAID = [{"role": "user", "content": "Say something about the sea."}]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    assert ENGINE, "set ENGINE_URL to the engine's http://HOST:PORT"
    with gateway("--worker-urls", ENGINE) as one:
        yield one


@pytest.fixture(scope="module")
def model() -> str:
    listed = httpx.get(f"{ENGINE}/v1/models", timeout=30).json()
    return str(listed["data"][0]["id"])


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=60
    ) as one:
        yield one


def ask(base: str, path: str, **body: object) -> httpx.Response:
    return httpx.post(f"{base}{path}", json=body, timeout=60)


def chat(base: str, model: str, **more: object) -> httpx.Response:
    body = {"messages": SAID, "max_tokens": 24, "temperature": 0, **more}
    return ask(base, "/v1/chat/completions", model=model, **body)


def test_the_answer_is_the_engines_own(running: Running, model: str) -> None:
    ours, direct = chat(running.url, model), chat(ENGINE, model)
    assert ours.status_code == direct.status_code == 200
    assert ours.json()["choices"] == direct.json()["choices"]
    assert ours.json()["usage"] == direct.json()["usage"]


def test_a_stream_is_the_plain_answer_in_pieces(
    client: openai.OpenAI, running: Running, model: str
) -> None:
    whole = chat(running.url, model).json()
    text, usage = "", None
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": SAID[0]["content"]}],
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for event in stream:
            usage = event.usage or usage
            for choice in event.choices:
                text += choice.delta.content or ""
    assert text == whole["choices"][0]["message"]["content"]
    assert usage is not None
    assert usage.total_tokens == whole["usage"]["total_tokens"]


def test_completions_work(client: openai.OpenAI, model: str) -> None:
    done = client.completions.create(
        model=model, prompt="The sea", max_tokens=8, temperature=0
    )
    assert done.usage is not None
    assert done.usage.completion_tokens == 8


def test_a_json_schema_constrains_the_answer(running: Running, model: str) -> None:
    schema = {
        "type": "object",
        "properties": {"wet": {"type": "boolean"}},
        "required": ["wet"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "sea", "schema": schema}}
    answer = chat(running.url, model, response_format=wanted, max_tokens=32)
    content = answer.json()["choices"][0]["message"]["content"]
    assert re.fullmatch(r'\s*\{\s*"wet"\s*:\s*(true|false)\s*\}\s*', content)


def test_several_choices_and_log_probabilities_pass(
    running: Running, model: str
) -> None:
    answer = chat(
        running.url, model, n=2, logprobs=True, top_logprobs=2, temperature=0.8
    ).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    first = answer["choices"][0]["logprobs"]["content"][0]
    assert len(first["top_logprobs"]) == 2


def test_the_messages_api_passes(running: Running, model: str) -> None:
    answer = ask(running.url, "/v1/messages", model=model, messages=SAID, max_tokens=8)
    assert answer.status_code == 200
    assert answer.json()["type"] == "message"


def test_the_engines_own_refusal_is_relayed(running: Running, model: str) -> None:
    ours = chat(running.url, model, temperature=-5)
    direct = chat(ENGINE, model, temperature=-5)
    assert ours.status_code == direct.status_code == 400
    assert ours.json() == direct.json()
    assert "x-smg-error-code" not in ours.headers


def test_an_abandoned_stream_stops_the_engine_within_a_second(
    running: Running, model: str
) -> None:
    body = {"model": model, "messages": SAID, "stream": True, "max_tokens": 1500}
    body["ignore_eos"] = True
    with httpx.stream(
        "POST", f"{running.url}/v1/chat/completions", json=body, timeout=60
    ) as stream:
        assert stream.status_code == 200, stream.read()
        lines = stream.iter_lines()  # dropped, it would close the stream
        next(lines)
        wait_until_running(1, secs=5.0)
    wait_until_running(0, secs=1.0)


def wait_until_running(count: int, secs: float) -> None:
    """The engine says so in its metrics, which lag a little behind it."""
    deadline = time.monotonic() + secs
    while busy() != count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def busy() -> float:
    page = httpx.get(f"{ENGINE}/metrics", timeout=30).text
    found = re.findall(r"^vllm:num_requests_running\{.*\} (\S+)$", page, re.MULTILINE)
    return sum(map(float, found))
