"""What SGLang is asked for decisions, and what it is understood to say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import ujson

from smgproxy.api.decisions import DecisionsRequest
from smgproxy.api.systemone import (
    InvalidDecisionsResponse,
    SystemOne,
    UnsupportedDecisions,
    translate,
)
from tests.api.deciding import CHOICE, PNG, PREDICATE, SCORE, body_of, with_part
from tests.api.reading import read

# -- what SGLang is asked -----------------------------------------------------------


def asked(body: bytes, aliases: dict[str, str] | None = None) -> SystemOne:
    call = read(body, "decisions", aliases)
    assert isinstance(call.request, DecisionsRequest)
    told = translate("sglang", call.request, call.body)
    assert told is not None
    return told


def test_other_runtimes_are_asked_as_the_client_asked() -> None:
    call = read(body_of(zz=1), "decisions")
    assert isinstance(call.request, DecisionsRequest)
    for runtime in ("vllm", "trtllm", "generic"):
        assert translate(runtime, call.request, call.body) is None


def test_the_request_is_translated_key_by_key() -> None:
    body = body_of(
        model="alias", questions=[PREDICATE, CHOICE, SCORE], safety_identifier="me"
    )
    assert asked(body, {"alias": "m"}).body == (
        b'{"model":"m","state":"text","questions":{'
        b'"q0":{"type":"noul","instructions":"Is it?"},'
        b'"q1":{"type":"choice","instructions":"Which?","criteria":'
        b'{"o0":{"value":true},"o1":{"value":"true","description":""}}},'
        b'"q2":{"type":"score","instructions":"How much?","criteria":'
        b'[{"label":"low"},{"label":"mid"},{"label":"high"}]}}}'
    )


def test_messages_are_passed_on_as_they_were_written() -> None:
    state = b'[ {"type":"message","role":"user", "content":" a\\u0062 "} ]'
    told = asked(b'{"questions":[%b],"model":"m","input":%b}' % (_Q, state))
    assert b'"state":' + state + b"," in told.body


_Q = b'{"type":"predicate","instructions":"?"}'


@pytest.mark.parametrize(
    ("body", "place"),
    [
        (with_part(type="input_image", image_url=PNG), "0.5.21"),
        (body_of(zz=1), "'zz' in the request"),
        (body_of(stream=False), "'stream' in the request"),
        (body_of(cache_salt="x"), "'cache_salt' in the request"),
        (body_of(input=[{"role": "user", "content": "x", "id": 1}]), "in input[0]"),
        (
            with_part(type="input_text", text="x", file_id="f"),
            "'file_id' in input[0].content[0]",
        ),
        (
            body_of(questions=[{**PREDICATE, "choices": []}]),
            "'choices' in questions[0]",
        ),
        (body_of(questions=[{**CHOICE, "levels": []}]), "'levels' in questions[0]"),
        (
            body_of(questions=[{**CHOICE, "choices": [{"value": "", "type": 1}]}]),
            "'type' in questions[0].choices[0]",
        ),
        (
            body_of(questions=[{**SCORE, "levels": [{"label": "", "value": 1}]}]),
            "'value' in questions[0].levels[0]",
        ),
        (body_of(input=""), "input: "),
        (body_of(input=" \n\u00a0"), "input: "),
        (body_of(input=[]), "input: "),
        (body_of(input=[{"role": "user", "content": []}]), "input: "),
        (with_part(type="input_text", text=" "), "input: "),
        (body_of(questions=[]), "questions: "),
        (
            body_of(questions=[PREDICATE, {**PREDICATE, "instructions": "\t"}]),
            "questions[1].instructions: ",
        ),
        (body_of(questions=[{**CHOICE, "choices": []}]), "1 to 255 entries, not 0"),
        (
            body_of(questions=[{**CHOICE, "choices": [{"value": "x"}] * 256}]),
            "1 to 255 entries, not 256",
        ),
        (body_of(questions=[{**SCORE, "levels": []}]), "1 to 10 entries, not 0"),
        (
            body_of(questions=[{**SCORE, "levels": [{"label": "x"}] * 11}]),
            "1 to 10 entries, not 11",
        ),
        (body_of(questions=[PREDICATE] * 8193), "more than 8192 parts, questions"),
        (
            body_of(input=[{"role": "user", "content": "x"}] * 8193),
            "more than 8192 parts, questions",
        ),
        (
            body_of(questions=[{**CHOICE, "choices": [{"value": "x"}] * 255}] * 33),
            "more than 8192 parts, questions",
        ),
    ],
)
def test_what_sglang_cannot_decide_is_refused_and_named(
    body: bytes, place: str
) -> None:
    with pytest.raises(UnsupportedDecisions) as caught:
        asked(body)
    assert place in caught.value.message


def test_a_blank_part_beside_a_text_is_evidence_as_it_is() -> None:
    parts = [{"type": "input_text", "text": text} for text in (" ", "x")]
    told = asked(body_of(input=[{"role": "user", "content": parts}]))
    assert ujson.loads(told.body)["state"][0]["content"] == parts


# -- what SGLang is understood to say -----------------------------------------------

NOUL = {"type": "noul", "noul": 1}
CHOSEN = {
    "type": "choice",
    "choice": "o1",
    "confidence": 0.74,
    "probabilities": {"o1": 0.87, "o0": 0.13},
}
SCORED = {
    "type": "score",
    "score": 1.62,
    "confidence": 0.43,
    "legend": {},
    "probabilities": {"0": 0.08, "1": 0.22, "2": 0.7},
}
USAGE = {"input_tokens": 182, "output_tokens": 0, "more": 1}
ANSWERS = {"q0": NOUL, "q1": CHOSEN, "q2": SCORED}
ASKED = asked(body_of(questions=[PREDICATE, CHOICE, SCORE]))


def reply(**fields: Any) -> bytes:
    told = {"model": "w", "answers": ANSWERS, "usage": USAGE, "x_label_mass": 1}
    return msgspec.json.encode({**told, **fields})


def answers(**fields: Any) -> bytes:
    return reply(answers={**ANSWERS, **fields})


def test_a_reply_is_told_in_the_requests_order_and_words() -> None:
    assert ASKED.answer(200, reply()) == (
        b'{"model":"w","answers":['
        b'{"type":"predicate","name":null,"probability":1.0},'
        b'{"type":"choice","name":"which","choice":"true","confidence":0.74,'
        b'"probabilities":[{"value":true,"probability":0.13},'
        b'{"value":"true","probability":0.87}]},'
        b'{"type":"score","name":null,"score":1.62,"confidence":0.43,'
        b'"probabilities":[{"value":0,"label":"low","probability":0.08},'
        b'{"value":1,"label":"mid","probability":0.22},'
        b'{"value":2,"label":"high","probability":0.7}]}],'
        b'"usage":{"input_tokens":182,"output_tokens":0,"total_tokens":182,'
        b'"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},'
        b'"output_tokens_details":{"reasoning_tokens":0}}}'
    )


@pytest.mark.parametrize(
    "body",
    [
        reply(model=""),
        answers(q1={**CHOSEN, "probabilities": {"o0": 0.13, "o1": 0.8699999}}),
        answers(q1={**CHOSEN, "choice": "o0", "probabilities": {"o0": 0.5, "o1": 0.5}}),
        answers(q2={**SCORED, "score": 1.620001}),
    ],
)
def test_a_reply_that_is_within_what_doubles_allow(body: bytes) -> None:
    assert ASKED.answer(200, body)


def without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


BAD_COUNTS: list[Any] = [None, -1, 1.5, True, "1"]
BAD_ODDS: list[Any] = [
    *([], {}, {"o1": 1}, {"o0": 0.13, "o1": 0.87, "o2": 0}),
    *({"o0": 0.13, "o1": "0.87"}, {"o0": 0.13, "true": 0.87}),
    *({"o0": 0.13, "o1": 0.87001}, {"o0": 0.87, "o1": 0.13}),
    {"o0": 0.500000001, "o1": 0.499999999},
]
BAD_REPLIES = [
    *(b"", b"no", b"[]", b"null", b'{"model":"w"}'),
    *(reply(model=None), reply(model=1), reply(answers=None), reply(answers=[])),
    *(reply(usage=None), reply(usage={}), reply(answers={})),
    reply(answers=without(ANSWERS, "q2")),
    reply(answers={**without(ANSWERS, "q2"), "q3": SCORED}),
    *(answers(q3=NOUL), answers(q0=1), answers(q0=CHOSEN), answers(q2=NOUL)),
    answers(q0={"type": "refusal"}),
    *(answers(q0={**NOUL, "noul": bad}) for bad in (None, "1", True, -1e-9, 1.0000001)),
    answers(q0={"type": "noul"}),
    reply().replace(b'"noul":1', b'"noul":NaN'),
    *(answers(q1={**CHOSEN, "confidence": bad}) for bad in (None, "1", -1e-9, 1.1)),
    *(answers(q1=without(CHOSEN, name)) for name in without(CHOSEN, "type")),
    *(answers(q2=without(SCORED, name)) for name in ("score", "probabilities")),
    *(answers(q1={**CHOSEN, "probabilities": bad}) for bad in BAD_ODDS),
    answers(q1={**CHOSEN, "choice": "o2"}),
    answers(q1={**CHOSEN, "choice": "true"}),
    *(answers(q2={**SCORED, "score": bad}) for bad in (1.62001, -0.1, 2.1, "1", None)),
    *(
        reply(usage={**USAGE, name: bad})
        for name in ("input_tokens", "output_tokens")
        for bad in BAD_COUNTS
    ),
    reply(usage={**USAGE, "output_tokens": 1}),
]


@pytest.mark.parametrize("body", BAD_REPLIES)
def test_success_that_is_no_answer_is_an_error(body: bytes) -> None:
    with pytest.raises(InvalidDecisionsResponse):
        ASKED.answer(200, body)


# -- what SGLang refuses ------------------------------------------------------------


def test_an_error_in_openais_shape_is_kept_as_it_is() -> None:
    body = b'{"error": {"message":"no","code":7}, "more":1}'
    assert ASKED.answer(422, body) is body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"msg":"x"}]}', '[{"msg":"x"}]'),
        (b'{"message":"x"}', '{"message":"x"}'),
        (b'{"error":"x"}', '{"error":"x"}'),
        (b"<html>", "<html>"),
        (b"", ""),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_any_other_error_is_put_into_an_envelope(body: bytes, message: str) -> None:
    assert ujson.loads(ASKED.answer(404, body)) == {
        "error": {
            "type": "Not Found",
            "code": "upstream_decisions_error",
            "message": message,
            "param": None,
        }
    }
