"""What is no JSON is a clear 400 wherever it stands, also where nobody looks."""

from __future__ import annotations

import pytest

from smgproxy.api.bodies import BodyReader
from smgproxy.api.schema import is_light
from smgproxy.core.errors import BadBody
from smgproxy.core.message import RequestHead
from tests.api.reading import ENDPOINTS, fault, read

# `?` is where the fault stands.
PLACES = {
    "a field": b'{"model":"m","messages":[{"role":"user","content":"a"}],'
    b'"temperature":?}',
    "an unknown field": b'{"model":"m","messages":[{"role":"user","content":"a"}],'
    b'"z":?}',
    "deep in one": b'{"model":"m","messages":[{"role":"user","content":"a"}],'
    b'"z":{"a":[[{"b":[1,?]}]]}}',
    "an unknown field of a message": b'{"model":"m","messages":'
    b'[{"role":"user","content":"a","z":[?]}]}',
    "a part's payload": b'{"model":"m","messages":[{"role":"user","content":'
    b'[{"type":"image_url","image_url":{"url":?}}]}]}',
    "a tool's parameters": b'{"model":"m","messages":[{"role":"user","content":"a"}],'
    b'"tools":[{"type":"function","function":{"name":"f","parameters":{"a":?}}}]}',
    "a message's tools": b'{"model":"kimi","messages":[{"role":"system","content":"",'
    b'"tools":[{"type":"function","function":{"name":"f","parameters":{"a":?}}}]}]}',
    "a schema": b'{"model":"m","messages":[{"role":"user","content":"a"}],'
    b'"response_format":{"type":"json_schema","json_schema":'
    b'{"name":"a","schema":{"a":?}}}}',
    "template variables": b'{"model":"m","messages":[{"role":"user","content":"a"}],'
    b'"chat_template_kwargs":{"a":?}}',
}
FAULTS = {
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "bad UTF-8": b'"\xff"',
    "a surrogate in UTF-8": b'"\xed\xa0\x80"',
    "a lone high surrogate": b'"\\ud800"',
    "a lone high surrogate and more": b'"\\ud800abcdef"',
    "two high surrogates": b'"\\ud800\\ud800"',
    "a lone low surrogate": b'"\\udc00"',
    "a lone surrogate as key": b'{"\\ud800":1}',
    "a trailing comma in a list": b"[1,]",
    "a trailing comma in an object": b'{"a":1,}',
    "a comma alone": b"[,]",
    "a raw control character": b'"\n"',
    "an unknown escape": b'"\\x41"',
    "a leading zero": b"01",
    "a bare word": b"nul",
    "a key without quotes": b"{a:1}",
    "nesting too deep": b"[" * 128 + b"]" * 128,
    "objects too deep": b'{"a":' * 128 + b"1" + b"}" * 128,
    "nesting without end": b"[" * 100_000,
    "nesting far too deep": b"[" * 50_000 + b"]" * 50_000,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_a_parse_error_wherever_it_stands(name: str, place: str) -> None:
    body = PLACES[place].replace(b"?", FAULTS[name])
    assert fault(body)
    # The same in steps, as part of a body that is read in such.
    dense = body[:-1] + b',"zz":[%b1]}' % (b"1," * 20_000)
    assert not is_light(dense)
    with pytest.raises(BadBody):
        for _ in BodyReader({}).steps(HEAD, ENDPOINTS["chat"], dense):
            pass


HEAD = RequestHead("POST", "/", "", [(b"content-type", b"application/json")])


@pytest.mark.parametrize("place", PLACES)
def test_what_only_looks_like_a_fault_is_none(place: str) -> None:
    if place == "a field":
        return
    harmless = '"NaN \\ud83d\\ude00 é 😀 [[[{{{ ,] \\"a\\":1,\\"a\\":2"'.encode()
    body = PLACES[place].replace(b"?", harmless)
    assert read(body).body


@pytest.mark.parametrize("route", sorted(ENDPOINTS))
def test_every_route_refuses_what_is_too_deep(route: str) -> None:
    assert fault(b'{"model":"m","z":' + b"[" * 127 + b"]" * 127 + b"}", route)
