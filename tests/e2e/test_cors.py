"""What web pages may read: header fields on every answer, and preflights."""

from __future__ import annotations

import pytest

from tests.e2e.asking import get
from tests.e2e.stage import Stage, play
from tests.fakes.client import Answer, post
from tests.fakes.worker import Connection, Received

PAGE = "https://app.example.com"
LISTED = {"cors_allowed_origins": (PAGE, "http://localhost:3000")}
ANY = {"cors_allowed_origins": ("*",)}


async def allows_anyone(connection: Connection, request: Received) -> None:
    await connection.answer(b"{}", headers="access-control-allow-origin: *\r\n")


def answer_to(request: bytes, has_body: bool = True, **rooms: object) -> Answer:
    answers: list[Answer] = []

    async def scene(stage: Stage) -> None:
        client = await stage.client()
        await client.send(request)
        answers.append(await client.answer(has_body))
        client.close()

    play(scene, allows_anyone, **rooms)
    return answers[0]


def cors_of(answer: Answer) -> dict[str, str]:
    return {
        name: value
        for name, value in answer.headers
        if name.startswith("access-control-") or name == "vary"
    }


REQUESTS = {
    "inference": post(headers=f"Origin: {PAGE}\r\n"),
    "control": get("/health", headers=f"Origin: {PAGE}\r\n"),
    "error": get("/nope", headers=f"Origin: {PAGE}\r\n"),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_listed_origin_may_read_every_answer(name: str) -> None:
    assert cors_of(answer_to(REQUESTS[name], cors=LISTED)) == {
        "vary": "origin",
        "access-control-allow-origin": PAGE,
        "access-control-expose-headers": "x-request-id,traceparent,tracestate",
    }


@pytest.mark.parametrize("headers", ["", "Origin: https://evil.example\r\n"])
def test_any_other_origin_is_not_named_whatever_the_worker_says(headers: str) -> None:
    assert cors_of(answer_to(post(headers=headers), cors=LISTED)) == {
        "vary": "origin",
        "access-control-expose-headers": "x-request-id,traceparent,tracestate",
    }


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/nope"])
def test_a_preflight_is_answered_on_any_path(path: str) -> None:
    answer = answer_to(get(path, "OPTIONS", f"Origin: {PAGE}\r\n"), cors=LISTED)
    assert (answer.status, answer.body) == (200, b"")
    assert cors_of(answer) == {
        "vary": "origin",
        "access-control-allow-origin": PAGE,
        "access-control-allow-methods": "GET,POST,PATCH,DELETE,OPTIONS",
        "access-control-allow-headers": "content-type,authorization,anthropic-version,"
        "anthropic-beta,traceparent,tracestate",
        "access-control-max-age": "3600",
    }


def test_a_star_allows_everyone_everything() -> None:
    answer = answer_to(get("/health", "OPTIONS", "Origin: http://x\r\n"), cors=ANY)
    assert answer.get("access-control-allow-origin") == "*"
    assert answer.get("access-control-allow-methods") == "*"
    assert answer.get("access-control-allow-headers") == "*"
    answer = answer_to(post(), cors=ANY)
    assert answer.get("access-control-allow-origin") == "*"
    assert answer.get("access-control-expose-headers") == "*"


def test_without_the_flag_nothing_is_said_and_the_workers_word_stands() -> None:
    assert cors_of(answer_to(REQUESTS["control"])) == {}
    assert cors_of(answer_to(REQUESTS["inference"])) == {
        "access-control-allow-origin": "*"
    }
    assert answer_to(get("/health", "OPTIONS")).status == 405
