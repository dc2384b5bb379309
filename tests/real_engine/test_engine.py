"""The gateway in front of a real engine; run by ``make test-engine ENGINE_URL=...``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator

import httpx
import openai
import pytest

from tests.e2e.process import RunningGateway, eventually

pytestmark = pytest.mark.real_engine
ENGINE = os.environ.get("ENGINE_URL", "").rstrip("/")
QUESTION = "Say something about the sea."
SAID = [{"role": "user", "content": QUESTION}]
# Of vLLM and of SGLang (which shows it with --enable-metrics).
GAUGES = {"vllm:num_requests_running", "sglang:num_running_reqs"}
TOKENS = {"vllm:generation_tokens_total", "sglang:generation_tokens_total"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    assert ENGINE, "set ENGINE_URL to the engine's http://HOST:PORT"
    folder = tmp_path_factory.mktemp("gateway")
    with RunningGateway(folder, "--worker-urls", ENGINE) as one:
        one.wait_until()
        yield one
        assert one.stop() == 0
        assert "Traceback" not in one.err


@pytest.fixture(scope="module")
def model() -> str:
    listed = httpx.get(f"{ENGINE}/v1/models", timeout=30, trust_env=False).json()
    return str(listed["data"][0]["id"])


@pytest.fixture(scope="module")
def client(running: RunningGateway) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{running.url}/v1", api_key="none", max_retries=0, timeout=60
    ) as one:
        yield one


def ask(base: str, path: str, **body: object) -> httpx.Response:
    return httpx.post(f"{base}{path}", json=body, timeout=60, trust_env=False)


def chat(base: str, model: str, **more: object) -> httpx.Response:
    body = {"messages": SAID, "max_tokens": 24, "temperature": 0, **more}
    return ask(base, "/v1/chat/completions", model=model, **body)


def test_the_answer_is_the_engines_own(running: RunningGateway, model: str) -> None:
    ours, direct = chat(running.url, model), chat(ENGINE, model)
    assert ours.status_code == direct.status_code == 200
    assert ours.json()["choices"] == direct.json()["choices"]
    assert ours.json()["usage"] == direct.json()["usage"]


def test_a_stream_is_the_plain_answer_in_pieces(
    client: openai.OpenAI, running: RunningGateway, model: str
) -> None:
    whole = chat(running.url, model).json()
    text, usage = "", None
    with client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": QUESTION}],
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


def test_a_completion_stream_is_the_plain_completion_in_pieces(
    client: openai.OpenAI, model: str
) -> None:
    done = client.completions.create(
        model=model, prompt="The sea", max_tokens=8, temperature=0
    )
    assert done.usage is not None
    assert done.usage.completion_tokens <= 8
    with client.completions.create(
        model=model, prompt="The sea", max_tokens=8, temperature=0, stream=True
    ) as stream:
        pieces = [one.choices[0].text for one in stream if one.choices]
    assert "".join(pieces) == done.choices[0].text


def test_a_json_schema_constrains_the_answer(
    running: RunningGateway, model: str
) -> None:
    schema = {
        "type": "object",
        "properties": {"wet": {"type": "boolean"}},
        "required": ["wet"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "sea", "schema": schema}}
    answer = chat(running.url, model, response_format=wanted, max_tokens=32)
    said = json.loads(answer.json()["choices"][0]["message"]["content"])
    assert said in ({"wet": True}, {"wet": False})


def test_several_choices_and_log_probabilities_pass(
    running: RunningGateway, model: str
) -> None:
    answer = chat(
        running.url, model, n=2, logprobs=True, top_logprobs=2, temperature=0.8
    ).json()
    assert [choice["index"] for choice in answer["choices"]] == [0, 1]
    first = answer["choices"][0]["logprobs"]["content"][0]
    assert len(first["top_logprobs"]) == 2


def test_the_messages_api_passes(running: RunningGateway, model: str) -> None:
    body = {"model": model, "messages": SAID, "max_tokens": 8, "temperature": 0}
    direct = ask(ENGINE, "/v1/messages", **body)
    if direct.status_code == 404:
        pytest.skip("the engine has no /v1/messages")
    ours = ask(running.url, "/v1/messages", **body)
    assert ours.status_code == direct.status_code == 200
    assert ours.json()["type"] == "message"
    assert ours.json()["content"] == direct.json()["content"]
    events = ask(running.url, "/v1/messages", stream=True, **body).text
    assert "".join(re.findall(r"^event: (message_st\w+)$", events, re.MULTILINE)) == (
        "message_startmessage_stop"
    )
    deltas = re.findall(r'^data: (.*"text_delta".*)$', events, re.MULTILINE)
    text = "".join(json.loads(one)["delta"]["text"] for one in deltas)
    assert text == "".join(one.get("text", "") for one in ours.json()["content"])


def test_the_engines_own_refusal_is_relayed(
    running: RunningGateway, model: str
) -> None:
    # Within the contract's range, and beyond any engine's context.
    ours = chat(running.url, model, max_tokens=100_000_000)
    direct = chat(ENGINE, model, max_tokens=100_000_000)
    assert ours.status_code == direct.status_code == 400
    assert ours.content == direct.content
    assert ours.headers["content-type"] == direct.headers["content-type"]
    assert "x-smg-error-code" not in ours.headers


def test_an_abandoned_stream_stops_the_engine_within_a_second(
    running: RunningGateway, model: str
) -> None:
    if not GAUGES & gauges().keys():
        pytest.skip("the engine shows no gauge of running requests at /metrics")
    assert busy() == 0, "the engine has other work to do"
    before = generated()
    most = 1500
    body = {"model": model, "messages": SAID, "stream": True, "max_tokens": most}
    body["ignore_eos"] = True
    url = f"{running.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, timeout=60, trust_env=False) as stream:
        assert stream.status_code == 200, stream.read()
        # Kept: an iterator that is dropped would close the stream.
        lines = stream.iter_lines()
        next(lines)
    eventually(lambda: busy() == 0, 1.0)
    # Not because it was through: its metrics wait while it has a stream to send, so
    # they cannot be asked in between.
    assert generated() - before < most / 2


def gauges() -> dict[str, float]:
    """The engine's metrics: the sum of the samples of each name."""
    page = httpx.get(f"{ENGINE}/metrics", timeout=30, trust_env=False)
    found: dict[str, float] = {}
    for line in page.text.splitlines() if page.status_code == 200 else ():
        if not line.startswith("#"):
            name, value = re.split(r"[{ ]", line, maxsplit=1)[0], line.split()[-1]
            found[name] = found.get(name, 0.0) + float(value)
    return found


def generated() -> float:
    """How many tokens the engine has generated, as far as it counts them."""
    return sum(value for name, value in gauges().items() if name in TOKENS)


def busy() -> float:
    """How many requests the engine says it runs; its metrics lag a little."""
    return sum(value for name, value in gauges().items() if name in GAUGES)
