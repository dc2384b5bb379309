"""curl, nghttp and h2load against what ``make run`` starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.process import RunningGateway, chat_body

CHAT = json.dumps(chat_body("Hello"))
STREAM = json.dumps(chat_body("Hello", stream=True))


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"{program} is not installed"
    )


def run(*command: str) -> str:
    """A program's output; it must be content."""
    done = subprocess.run(command, capture_output=True, timeout=50)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.fixture
def url(gateway: RunningGateway) -> str:
    return f"{gateway.url}/v1/chat/completions"


def curl(url: str, *arguments: str) -> str:
    quiet = ("curl", "-sS", "-i", "--noproxy", "*", "--max-time", "30")
    json_type = ("-H", "content-type: application/json")
    return run(*quiet, "--http2-prior-knowledge", *json_type, *arguments, url)


@needs("curl")
def test_curl_gets_a_chat(url: str) -> None:
    head, _, body = curl(url, "-d", CHAT).partition("\r\n\r\n")
    assert head.startswith("HTTP/2 200")
    assert json.loads(body)["choices"]


@needs("curl")
def test_curl_gets_a_stream(url: str) -> None:
    head, _, body = curl(url, "-N", "-d", STREAM).partition("\r\n\r\n")
    assert head.startswith("HTTP/2 200")
    assert body.endswith("data: [DONE]\n\n")


@needs("curl")
def test_curl_that_waits_for_100_continue_gets_it(url: str) -> None:
    said = curl(url, "-H", "expect: 100-continue", "-d", CHAT)
    assert "HTTP/2 200" in said


@needs("curl")
def test_curl_uploads_megabytes(url: str, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(json.dumps(chat_body("x" * 5_000_000)))
    assert "HTTP/2 200" in curl(url, "--data-binary", f"@{body}")


@needs("nghttp")
def test_nghttp_gets_a_chat(url: str, tmp_path: Path) -> None:
    body = tmp_path / "body.json"
    body.write_text(CHAT)
    said = run("nghttp", "-H", "content-type: application/json", "-d", str(body), url)
    assert json.loads(said)["choices"]


@needs("nghttp")
def test_nghttp_with_padding_trailers_and_many_continuations(
    url: str, tmp_path: Path
) -> None:
    body = tmp_path / "body.json"
    body.write_text(CHAT)
    odd = ("--continuation", "-b", "200", "--trailer", "x-sum: 1", "-m", "5")
    said = run(
        "nghttp", *odd, "-H", "content-type: application/json", "-d", str(body), url
    )
    assert said.count('"choices"') == 5


@needs("h2load")
@pytest.mark.parametrize("asked", [CHAT, STREAM], ids=["chat", "stream"])
def test_h2load_gets_all_it_asks_for(url: str, tmp_path: Path, asked: str) -> None:
    body = tmp_path / "body.json"
    body.write_text(asked)
    json_type = ("-H", "content-type: application/json")
    said = run(
        *("h2load", "-n", "400", "-c", "4", "-m", "16", *json_type),
        *("-d", str(body), url),
    )
    assert re.search(r"400 succeeded, 0 failed, 0 errored, 0 timeout", said), said
    assert "status codes: 400 2xx" in said
