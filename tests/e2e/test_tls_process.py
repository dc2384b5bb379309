"""TLS of a gateway process: its start, its reload, and the clients people have."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from tests.e2e.conftest import SIMULATED
from tests.e2e.process import MODEL, RunningGateway, chat_body, eventually
from tests.fakes.certificates import EXPIRED, HOST, Authority, Pair


def flags(pair: Pair) -> tuple[str, ...]:
    return ("--tls-cert-path", pair.cert, "--tls-key-path", pair.key)


def secure(running: RunningGateway) -> RunningGateway:
    running.url = running.url.replace("http:", "https:")
    return running


@pytest.fixture(scope="module")
def https(
    tmp_path_factory: pytest.TempPathFactory, authority: Authority
) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("https")
    shown = flags(authority.issue("process"))
    with secure(RunningGateway(folder, *SIMULATED, *shown)) as running:
        running.wait_until()
        yield running
        assert running.stop() == 0


def test_start_says_https(https: RunningGateway) -> None:
    assert f"  API      https://{HOST}:{https.port}\n" in https.out
    assert "curl -k https://" in https.out
    assert "--tls-cert-path" not in https.out


def test_httpx(https: RunningGateway, authority: Authority) -> None:
    with httpx.Client(verify=authority.trusting(), trust_env=False) as client:
        for _ in range(2):
            answer = client.post(
                f"{https.url}/v1/chat/completions", json=chat_body("hi"), timeout=20
            )
            assert answer.status_code == 200


def test_openai(https: RunningGateway, authority: Authority) -> None:
    with (
        openai.DefaultHttpxClient(
            verify=authority.trusting(), trust_env=False
        ) as carrier,
        openai.OpenAI(
            base_url=f"{https.url}/v1", api_key="x", http_client=carrier, timeout=20
        ) as client,
    ):
        pieces = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True
        )
        assert "".join(one.choices[0].delta.content or "" for one in pieces)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize("version", ["--tls-max=1.2", "--tlsv1.3"])
@pytest.mark.parametrize(("asked", "spoken"), [("--http1.1", "1.1"), ("--http2", "2")])
def test_curl(
    asked: str,
    spoken: str,
    version: str,
    https: RunningGateway,
    authority: Authority,
) -> None:
    command = ["curl", "-sS", asked, *version.split("="), "--cacert", authority.path]
    command += ["-w", "%{http_version}", f"{https.url}/v1/models"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stderr) == (0, "")
    assert MODEL in done.stdout
    assert done.stdout.endswith(spoken)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_posts_and_streams_over_http2(
    tmp_path: Path, https: RunningGateway, authority: Authority
) -> None:
    body = tmp_path / "body"
    body.write_text(json.dumps(chat_body("x" * 3_000_000, stream=True)))
    command = ["curl", "-sS", "--http2", "--cacert", authority.path]
    command += ["-H", "content-type: application/json", "--data-binary", f"@{body}"]
    command += [f"{https.url}/v1/chat/completions"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("data: [DONE]\n\n")


def test_metrics_stay_plain_and_count_failed_handshakes(https: RunningGateway) -> None:
    name = "smg_client_tls_handshake_failures_total"
    with socket.create_connection((HOST, https.port)) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert sock.recv(100) == b""
    page = https.ask("GET", https.metrics_url).text
    assert f'{name}{{reason="plain_http"}} 1' in page
    assert "Traceback" not in https.err, https.err[-3000:]


# -- reload --------------------------------------------------------------------------


def serial_of(port: int) -> int:
    """Which certificate a new client meets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((HOST, port), timeout=10) as sock,
        context.wrap_socket(sock) as wire,
    ):
        return hash(wire.getpeercert(binary_form=True))


def replace(old: Pair, new: Pair) -> None:
    for name in ("cert", "key"):
        shutil.copy(getattr(new, name), getattr(old, name))


def test_reload_shows_new_certificates_and_drops_nobody(
    tmp_path: Path, authority: Authority
) -> None:
    shown = authority.issue("reloaded")
    with secure(RunningGateway(tmp_path, *SIMULATED, *flags(shown))) as running:
        running.wait_until()
        before = serial_of(running.port)
        with running.stream(max_tokens=2000) as pieces:
            next(pieces)
            replace(shown, authority.issue("renewed"))
            running.signal(signal.SIGHUP)
            eventually(lambda: serial_of(running.port) != before)
            assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
        assert f"reloaded: server certificate {shown.cert}, valid until" in running.err
        # What cannot be used changes nothing, and is said.
        after = serial_of(running.port)
        Path(shown.key).write_text("nonsense")
        running.signal(signal.SIGHUP)
        eventually(lambda: "reload failed" in running.err)
        assert f"--tls-key-path: {shown.key} holds no PEM private key" in running.err
        assert serial_of(running.port) == after
        assert running.chat().status_code == 200
        assert running.stop() == 0


def test_reload_believes_other_clients(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    believed = tmp_path / "clients.pem"
    shutil.copy(authority.path, believed)
    shown = (*flags(authority.issue("mutual")), "--tls-client-ca-paths", str(believed))

    def is_served(pair: Pair) -> bool:
        try:
            answer = httpx.get(
                f"https://{HOST}:{running.port}/liveness",
                verify=authority.trusting(pair),
                trust_env=False,
            )
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    old, new = authority.issue("a", "a.example"), stranger.issue("b", "b.example")
    with RunningGateway(tmp_path, *shown) as running:
        eventually(lambda: is_served(old))
        assert not is_served(new)
        shutil.copy(stranger.path, believed)
        running.signal(signal.SIGHUP)
        eventually(lambda: is_served(new))
        assert not is_served(old)
        assert "to clients with a certificate of --tls-client-ca-paths" in running.out
        assert running.stop() == 0


def test_sighup_without_tls_ends_nothing(gateway: RunningGateway) -> None:
    gateway.signal(signal.SIGHUP)
    eventually(lambda: "reloaded: server certificate none" in gateway.err)
    assert gateway.chat().status_code == 200


# -- start-up errors -----------------------------------------------------------------


def test_unusable_files_end_the_start_with_one_line(
    tmp_path: Path, authority: Authority
) -> None:
    pair = Pair(authority.issue("one").cert, authority.issue("two").key)
    with RunningGateway(tmp_path, *flags(pair)) as running:
        assert running.wait() == 1
        assert running.err == (
            f"smg launch: --tls-key-path: {pair.key} is not the key of the certificate "
            f"in {pair.cert}: give the two files that belong together, the server's "
            "own certificate first in its file\n"
        )


def test_an_expired_certificate_is_a_warning(
    tmp_path: Path, authority: Authority
) -> None:
    pair = authority.issue("expired", not_after=EXPIRED)
    with secure(RunningGateway(tmp_path, *SIMULATED, *flags(pair))) as running:
        running.wait_until()
        assert f"the certificate in {pair.cert} expired on 2020-01-02 03:04 UTC" in (
            running.err
        )
        assert running.stop() == 0
