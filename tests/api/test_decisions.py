"""What /v1/decisions reads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.deciding import (
    CHOICE,
    MIB,
    PNG,
    PREDICATE,
    SCORE,
    body_of,
    with_images,
    with_part,
)
from tests.api.reading import fault, read, refusal

IMAGE = {"type": "input_image", "image_url": PNG}

# -- the schema ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"input": ""},
        {"input": []},
        {"input": [{"role": "user", "content": []}]},
        {"input": [{"role": "user", "type": "message", "content": "x"}]},
        {"input": [{"role": "user", "content": [{**IMAGE, "detail": None}]}]},
        {"questions": []},
        {"questions": [{**CHOICE, "choices": []}, {**SCORE, "levels": []}]},
        {"questions": [PREDICATE] * 300},
        {"questions": [{**PREDICATE, "choices": 7, "zz": None}]},
        {"model": ""},
        {"stream": "anything", "zz": {"a": [1]}},
        {"safety_identifier": "é" * 128},
        {"safety_identifier": None},
        {"input": "x" * (10 * MIB + 1)},
        {"questions": [{**PREDICATE, "instructions": "é" * MIB}]},
        {"questions": [{**CHOICE, "choices": [{"value": "x" * (MIB + 1)}]}]},
    ],
)
def test_a_body_that_is_read(fields: dict[str, Any]) -> None:
    body = body_of(**fields)
    assert read(body, "decisions").body is body


@pytest.mark.parametrize(
    "body",
    [
        b'{"input":"x","questions":[]}',
        b'{"model":"m","questions":[]}',
        b'{"model":"m","input":"x"}',
        body_of(model=None),
        body_of(input=7),
        body_of(input=[{"role": "assistant", "content": "x"}]),
        body_of(input=[{"content": "x"}]),
        body_of(input=[{"role": "user"}]),
        body_of(input=[{"role": "user", "type": "other", "content": "x"}]),
        with_part(type="input_audio"),
        with_part(type="input_text"),
        with_part(type="input_image", file_id="f"),
        with_part(type="input_image", image_url={"url": PNG}),
        with_part(type="input_image", image_url=PNG, detail="huge"),
        body_of(questions=None),
        body_of(questions=[{"type": "essay", "instructions": "x"}]),
        body_of(questions=[{"instructions": "x"}]),
        body_of(questions=[{"type": "predicate"}]),
        body_of(questions=[{**PREDICATE, "name": None}]),
        body_of(questions=[{"type": "choice", "instructions": "x"}]),
        body_of(questions=[{**CHOICE, "choices": [{"value": 1}]}]),
        body_of(questions=[{**CHOICE, "choices": [{"value": None}]}]),
        body_of(questions=[{**CHOICE, "choices": ["plain"]}]),
        body_of(
            questions=[{**CHOICE, "choices": [{"value": "", "description": None}]}]
        ),
        body_of(questions=[{"type": "score", "instructions": "x"}]),
        body_of(questions=[{**SCORE, "levels": [{"label": 1}]}]),
        body_of(safety_identifier=1),
        b'{"model":"m","input":"x","input":"y","questions":[]}',
    ],
)
def test_a_body_that_is_not_the_schemas(body: bytes) -> None:
    assert fault(body, "decisions")


LONG = "é" * (MIB + 1)


@pytest.mark.parametrize(
    "body",
    [
        body_of(model=LONG),
        body_of(questions=[{**PREDICATE, "instructions": LONG}]),
        body_of(questions=[{**PREDICATE, "name": LONG}]),
        body_of(
            questions=[{**CHOICE, "choices": [{"value": "", "description": LONG}]}]
        ),
        body_of(questions=[{**SCORE, "levels": [{"label": LONG}]}]),
        body_of(questions=[{**SCORE, "levels": [{"label": "", "description": LONG}]}]),
        body_of(safety_identifier="x" * 129),
        with_part(type="input_text", text="x" * (10 * MIB + 1)),
    ],
)
def test_a_text_that_is_too_long_is_told_in_characters(body: bytes) -> None:
    assert refusal(body, "decisions").endswith(" characters")


def test_images_are_counted_over_all_messages() -> None:
    read(with_images(128), "decisions")
    read(with_images(64, 2), "decisions")
    assert refusal(with_images(129), "decisions").endswith("128 images")
    assert refusal(with_images(43, 3), "decisions").endswith("128 images")


@pytest.mark.parametrize(
    "url",
    [PNG, "data:image/svg+xml;charset=utf-8;base64,AA==", "data:image/x;a;base64,\n"],
)
def test_an_inline_image(url: str) -> None:
    read(with_part(type="input_image", image_url=url, file_id="f"), "decisions")


@pytest.mark.parametrize(
    "url",
    [
        *("", "https://a/b.png", "DATA:image/png;base64,AA", "data:image/png;base64,"),
        *("data:text/plain;base64,AA", "data:image/png,AA", "data:image/;base64,AA"),
        "data:image/png" + ";" * 100_000,
    ],
)
def test_an_image_that_is_not_inline_is_refused(url: str) -> None:
    told = refusal(with_part(type="input_image", image_url=url), "decisions")
    assert told.startswith("input[0].content[0].image_url: must be an inline image")


def test_a_router_reads_the_evidence() -> None:
    messages = [
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "input_text", "text": "b"}]},
    ]
    assert read(body_of(input=messages), "decisions").text() == "a b"
