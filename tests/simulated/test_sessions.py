"""Realtime sessions, secrets and calls of the simulated worker: sessions.py."""

import json
from typing import Any

import pytest

from smgproxy.simulated.bodies import BadAsk
from smgproxy.simulated.scoring import Scored
from smgproxy.simulated.server import SimulatedServer
from smgproxy.simulated.sessions import (
    call,
    client_secret,
    session,
    transcription_session,
)
from tests.simulated.serving import RawClient, post, serve

SDP = b"v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n"
MEDIA = (
    b"m=audio 9 UDP/TLS/RTP/SAVPF 111 0\r\na=mid:0\r\nm=application 9 DTLS/SCTP x\r\n"
)


def told(scored: Scored) -> Any:
    return json.loads(scored.body)


def test_a_session_is_what_was_asked_for_with_an_id_and_a_secret() -> None:
    made = told(session(b'{"model":"m","voice":"v"}', "other", "1"))
    assert made.pop("client_secret")["value"] == "ek_1"
    assert made == {
        **{"type": "realtime", "model": "m", "voice": "v"},
        **{"id": "sess_1", "object": "realtime.session"},
    }


def test_a_session_that_listens_says_so() -> None:
    made = told(transcription_session(b"{}", "m", "1"))
    assert made["object"] == "realtime.transcription_session"
    assert made["type"] == "transcription" and made["client_secret"]


@pytest.mark.parametrize("kind", ["realtime", "transcription"])
def test_a_secret_comes_with_its_session(kind: str) -> None:
    body = json.dumps({"session": {"type": kind, "model": "m"}}).encode()
    made = told(client_secret(body, "m", "1"))
    assert made["value"] == "ek_1" and made["expires_at"] > 1_700_000_000
    assert made["session"]["type"] == kind and "client_secret" not in made["session"]


@pytest.mark.parametrize("body", [b"", b"[]", b'{"model":"m"}', b'{"session":7}'])
def test_no_session_is_no_secret(body: bytes) -> None:
    with pytest.raises(BadAsk):
        client_secret(body, "m", "1")


def test_every_medium_of_an_offer_is_refused() -> None:
    media = [line for line in call(SDP + MEDIA).split(b"\r\n") if line[:2] == b"m="]
    assert media == [
        b"m=audio 0 UDP/TLS/RTP/SAVPF 111 0",
        b"m=application 0 DTLS/SCTP x",
    ]


@pytest.mark.parametrize("body", [b"", b"{}", b"--b\r\n\r\n--b--\r\n"])
def test_no_offer_is_no_call(body: bytes) -> None:
    with pytest.raises(BadAsk):
        call(body)


@pytest.mark.parametrize("is_form", [False, True])
def test_a_call_gets_a_place(is_form: bool) -> None:
    form = b'--b\r\nContent-Disposition: form-data; name="sdp"\r\n\r\n%b\r\n--b--\r\n'

    async def scenario(server: SimulatedServer, url: str) -> None:
        async with RawClient(url) as client:
            path = "/v1/realtime/calls?model=m"
            client.writer.write(post(path, form % SDP if is_form else SDP))
            response = await client.response()
            assert response.status == 201
            assert response.headers[b"location"].startswith(path[:18].encode() + b"/")
            assert response.headers[b"content-type"] == b"application/sdp"
            assert response.body.startswith(b"v=0\r\n")
            client.writer.write(post(path, b"{}"))
            assert (await client.response()).status == 400

    serve(scenario)
