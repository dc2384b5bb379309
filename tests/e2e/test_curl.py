"""curl against what ``make run`` starts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from tests.e2e.process import MODEL, ROOT, RunningGateway, chat_body

pytestmark = pytest.mark.skipif(
    shutil.which("curl") is None, reason="curl is not installed"
)
JSON_TYPE = ("-H", "content-type: application/json")
CHAT = json.dumps(chat_body("Hello"))
STREAM = json.dumps(chat_body("Hello", stream=True))


class Said:
    """What curl wrote: the last response's head and body, and its own remarks."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.remarks = done.stderr.decode()
        head, self.body = b"", done.stdout
        while self.body.startswith(b"HTTP/"):
            head, _, self.body = self.body.partition(b"\r\n\r\n")
        status_line, *lines = head.decode().splitlines()
        self.version, status = status_line.split(" ")[:2]
        self.status = int(status)
        pairs = (line.partition(":") for line in lines)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}


def curl(url: str, *arguments: str, upload: bytes = b"") -> Said:
    """Run curl; it must not find fault with the exchange."""
    command = ["curl", "-sS", "-i", "--noproxy", "*", "--max-time", "20"]
    done = subprocess.run(
        [*command, *arguments, url], input=upload, capture_output=True, timeout=40
    )
    assert done.returncode == 0, done.stderr
    return Said(done)


def chat_url(gateway: RunningGateway) -> str:
    return f"{gateway.url}/v1/chat/completions"


def text_of(said: Said) -> str:
    """The answer's words, whole or streamed."""
    if said.headers["content-type"].startswith("application/json"):
        return str(json.loads(said.body)["choices"][0]["message"]["content"])
    *events, last, nothing = said.body.decode().split("\n\n")
    assert (last, nothing) == ("data: [DONE]", "")
    chunks = [json.loads(event.removeprefix("data: ")) for event in events]
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    return "".join(delta.get("content") or "" for delta in deltas)


def test_a_chat_is_answered(gateway: RunningGateway) -> None:
    said = curl(chat_url(gateway), *JSON_TYPE, "-d", CHAT)
    assert (said.version, said.status) == ("HTTP/1.1", 200)
    assert text_of(said)
    assert said.headers["content-length"] == str(len(said.body))
    assert said.headers["x-request-id"]


def test_a_stream_is_chunked_events_that_say_the_same(gateway: RunningGateway) -> None:
    plain = curl(chat_url(gateway), *JSON_TYPE, "-d", CHAT)
    said = curl(chat_url(gateway), "-N", *JSON_TYPE, "-d", STREAM)
    assert said.headers["content-type"].startswith("text/event-stream")
    assert said.headers["transfer-encoding"] == "chunked"
    assert text_of(said) == text_of(plain)


def test_the_command_of_the_banner_works(gateway: RunningGateway) -> None:
    commands = re.findall(r"^ +(curl .*\\\n.*)$", gateway.out, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", f"{command} -sS --noproxy '*' --max-time 20"],
            capture_output=True,
            timeout=40,
        )
        assert done.returncode == 0, done.stderr
        assert b'"choices"' in done.stdout


def readme_commands() -> list[str]:
    """The commands of the README for what simulated workers serve, but the last."""
    text = (ROOT / "README.md").read_text()
    _, _, text = text.partition("the other kinds of requests too:\n")
    block = text.partition("The last one needs")[0]
    # A command begins where a line is no deeper than its block.
    begun = re.split(r"^ {4}(?=[a-z#])", block, flags=re.MULTILINE)
    return [one.strip() for one in begun if re.match("curl|printf", one)]


SAID = (
    *(b"data: [DONE]", b'"embedding"', b'"probability"', b'"transcript.text.done"'),
    *(b'"value":"ek_', b"HTTP/1.1 201 Created"),
)


@pytest.mark.parametrize(
    ("command", "said"), list(zip(readme_commands(), SAID, strict=True))
)
def test_the_commands_of_the_readme_work(
    gateway: RunningGateway, command: str, said: bytes
) -> None:
    command = command.replace("http://127.0.0.1:30000", gateway.url)
    command = command.replace("curl ", "curl -sS --noproxy '*' --max-time 20 ", 1)
    done = subprocess.run(
        ["sh", "-c", command], capture_output=True, timeout=40, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_head_of_the_model_list_has_its_length_and_no_body(
    gateway: RunningGateway,
) -> None:
    whole = curl(f"{gateway.url}/v1/models")
    head = curl(f"{gateway.url}/v1/models", "-I")
    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-length"] == str(len(whole.body))
    assert [model["id"] for model in json.loads(whole.body)["data"]] == [MODEL]


def test_an_http_1_0_client_gets_its_answer_and_the_close(
    gateway: RunningGateway,
) -> None:
    said = curl(chat_url(gateway), "--http1.0", *JSON_TYPE, "-d", CHAT)
    assert (said.version, said.status) == ("HTTP/1.0", 200)
    assert text_of(said)


def test_an_http_1_0_client_gets_a_stream_without_chunks(
    gateway: RunningGateway,
) -> None:
    said = curl(chat_url(gateway), "--http1.0", "-N", *JSON_TYPE, "-d", STREAM)
    assert "transfer-encoding" not in said.headers
    assert text_of(said)


@pytest.mark.parametrize(
    ("body", "status", "code", "header"),
    [
        (chat_body("Hi", model="none"), 404, "model_not_found", "model_not_found"),
        ("no object", 400, "json_parse_error", None),
        # The engine's own refusal, as it is.
        (chat_body("Hi", messages=[]), 400, 400, None),
    ],
    ids=["unknown model", "not a request", "refused by the engine"],
)
def test_errors_are_json_that_names_their_code(
    gateway: RunningGateway, body: object, status: int, code: object, header: str | None
) -> None:
    said = curl(chat_url(gateway), *JSON_TYPE, "-d", json.dumps(body))
    error = json.loads(said.body)["error"]
    assert (said.status, error["code"]) == (status, code)
    assert error["message"]
    assert said.headers.get("x-smg-error-code") == header


def test_a_path_that_is_no_route_is_404(gateway: RunningGateway) -> None:
    assert curl(f"{gateway.url}/nowhere").status == 404


def test_another_method_on_a_route_is_405(gateway: RunningGateway) -> None:
    assert curl(chat_url(gateway), "-X", "DELETE").status == 405


def test_an_upload_that_waits_for_100_continue_gets_it(
    gateway: RunningGateway,
) -> None:
    expect = ("-H", "Expect: 100-continue", "--expect100-timeout", "15")
    said = curl(chat_url(gateway), "-v", *expect, *JSON_TYPE, "-d", CHAT)
    assert "HTTP/1.1 100 Continue" in said.remarks
    assert said.status == 200
    assert text_of(said)


def test_a_chunked_upload_is_a_body_like_any_other(gateway: RunningGateway) -> None:
    sized = curl(chat_url(gateway), *JSON_TYPE, "-d", CHAT)
    chunked = curl(
        chat_url(gateway),
        *JSON_TYPE,
        *("-X", "POST", "-H", "Transfer-Encoding: chunked", "-T", "-"),
        upload=CHAT.encode(),
    )
    assert chunked.status == 200
    assert text_of(chunked) == text_of(sized)


def test_one_connection_serves_many_requests(gateway: RunningGateway) -> None:
    url = f"{gateway.url}/v1/models"
    said = curl(url, "-v", url, url)
    assert said.remarks.lower().count("re-using existing") == 2
