"""Large bodies are read in steps; what comes of it is what one go would give."""

from __future__ import annotations

import pytest
import ujson

from smgproxy.api.bodies import BodyReader, Call
from smgproxy.api.endpoints import INFERENCE
from smgproxy.api.schema import is_light
from smgproxy.core.errors import GatewayError
from smgproxy.core.message import RequestHead

[CHAT] = [one for one in INFERENCE if one.path == "/v1/chat/completions"]
HEAD = RequestHead("POST", CHAT.path, "", [(b"content-type", b"application/json")])
READER = BodyReader({"alias": "m"})
GOOD = {"model": "alias", "messages": [{"role": "user", "content": "hi"}] * 5000}


def in_steps(body: bytes, head: RequestHead = HEAD) -> tuple[Call, int]:
    """The call, and in how many steps it was made."""
    steps, count = READER.steps(head, CHAT, body), 0
    while True:
        try:
            next(steps)
        except StopIteration as done:
            assert isinstance(done.value, Call)
            return done.value, count
        count += 1


def test_a_call_is_the_same() -> None:
    body = ujson.dumps(GOOD).encode()
    stepped, count = in_steps(body)
    whole = READER.read(HEAD, CHAT, body)
    assert (
        (stepped.model, stepped.body)
        == (whole.model, whole.body)
        == (
            "m",
            whole.body,
        )
    )
    assert stepped.request == whole.request
    assert count > 5, "others had their turns"


@pytest.mark.parametrize(
    "text",
    [
        b'{"model":"m","messages":[%b]}' % b",".join([b'{"role":"system"}'] * 30_000),
        b'{"model":"alias","messages":[{"role":"user","content":"model"}],%b}'
        % b",".join(b'"k%d":0' % number for number in range(50_000)),
    ],
)
def test_the_more_values_the_more_steps(text: bytes) -> None:
    call, count = in_steps(text)
    assert call.body == text.replace(b'"alias"', b'"m"')
    assert count > 20


def test_a_body_of_one_long_text_needs_no_steps() -> None:
    chat = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}'
    assert is_light(chat % (b"word " * 180_000))
    assert is_light(chat % (b"[" * 3000))
    assert not is_light(chat % (b"a" * 1_100_000))
    assert not is_light(chat % (b"[," * 20_000))


@pytest.mark.parametrize(
    "body",
    [
        b"[",
        b'{"model":"m"}',
        b'{"model":"m","model":"m","messages":[{"role":"user","content":"a"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"a","role":"user"}]}',
        b'{"model":"m","x":"\xff","messages":[{"role":"user","content":"a"}]}',
        b'{"model":"m","temperature":9,"messages":[{"role":"user","content":"a"}]}',
        b'{"model":"m","messages":[{"role":"user","content":"a"}],"x":'
        + b"[" * 200
        + b"]" * 200
        + b"}",
    ],
)
def test_so_is_a_refusal(body: bytes) -> None:
    with pytest.raises(GatewayError) as at_once:
        READER.read(HEAD, CHAT, body)
    with pytest.raises(GatewayError) as stepped:
        in_steps(body)
    assert type(stepped.value) is type(at_once.value)
    assert str(stepped.value) == str(at_once.value)


def test_another_media_type_is_refused_before_a_byte_is_read() -> None:
    head = RequestHead("POST", CHAT.path, "", [(b"content-type", b"text/plain")])
    with pytest.raises(GatewayError):
        in_steps(b"{", head)
