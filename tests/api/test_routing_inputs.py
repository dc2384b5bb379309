"""What of a body the choice of a worker goes by (contract, routing inputs)."""

from __future__ import annotations

from typing import Any

import pytest
import ujson

from tests.api.reading import body_of, read

IMAGE = {"type": "image_url", "image_url": {"url": "data:,x"}}


def text_of(*messages: dict[str, Any], **fields: Any) -> str:
    return read(body_of(messages=list(messages), **fields)).text()


def said(content: Any, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_messages_are_joined_by_one_space_and_roles_are_no_text() -> None:
    """A newline or a role's name would change how much of a prompt is known."""
    assert text_of(said("a", "system"), said("b c"), said("d", "assistant")) == (
        "a b c d"
    )


def test_text_parts_are_joined_in_the_same_way_and_others_are_no_text() -> None:
    parts = [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b"}]
    assert text_of(said(parts), said("c")) == "a b c"


def test_an_assistants_reasoning_follows_its_content() -> None:
    turn = said("answer", "assistant", reasoning_content="thought")
    assert text_of(turn, said("next")) == "answer thought next"


def test_messages_of_anthropics_form_are_read_alike_behind_their_system() -> None:
    parts = [{"type": "text", "text": "b"}, {"type": "text", "text": "c"}]
    body = body_of(messages=[said("a"), said(parts)], max_tokens=1, system="s")
    assert read(body, "messages").text() == "s a b c"
    body = body_of(messages=[said("a")], max_tokens=1, system=parts)
    assert read(body, "messages").text() == "b c a"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("a b", "a b"),
        ([said("a"), said("b", "assistant")], "a b"),
        ([said([{"type": "input_text", "text": "a"}, {"type": "input_image"}])], "a"),
        (
            [
                {"type": "message", **said("a")},
                {"type": "function_call", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "output": "no part of it"},
                {"type": "reasoning", "content": [{"text": "b"}], "summary": []},
                {"type": "of the worker's own", "content": {"text": "no"}},
                {"id": "item"},
                {"type": "message", **said("c")},
            ],
            "a b c",
        ),
    ],
)
def test_a_responses_text_is_what_its_input_says(given: Any, text: str) -> None:
    body = ujson.dumps({"model": "m", "input": given, "instructions": "i"}).encode()
    assert read(body, "responses").text() == text


@pytest.mark.parametrize("prompt, text", [("a b", "a b"), (["a", "b"], "a b")])
def test_a_completions_prompt_is_its_text(prompt: Any, text: str) -> None:
    body = ujson.dumps({"model": "m", "prompt": prompt}).encode()
    assert read(body, "completions").text() == text


@pytest.mark.parametrize(
    "ids, found",
    [([1, 2], [1, 2]), ([[1, 2], [3]], [1, 2]), ([], None), (["a"], None)],
)
def test_ids_of_a_generate_are_those_of_its_first_sequence(
    ids: Any, found: list[int] | None
) -> None:
    call = read(ujson.dumps({"text": "t", "input_ids": ids}).encode(), "generate")
    assert (call.text(), call.token_ids()) == ("t", found)


@pytest.mark.parametrize(
    "name, body",
    [
        ("chat", {"messages": [said("a")]}),
        ("completions", {"prompt": "a"}),
        ("messages", {"messages": [said("a")], "max_tokens": 1}),
        ("generate", {"text": "a"}),
        ("embeddings", {"input": "a"}),
        ("classify", {"input": "a"}),
        ("rerank", {"query": "a", "documents": ["b"]}),
    ],
)
def test_every_route_but_responses_has_a_rid(name: str, body: dict[str, Any]) -> None:
    given = ujson.dumps({"model": "m", **body, "rid": "r"}).encode()
    assert read(given, name).rid() == "r"


@pytest.mark.parametrize(
    "rid, found", [(["r", "s"], "r"), ([], None), ([1], None), (None, None)]
)
def test_of_a_list_of_rids_the_first_counts(rid: Any, found: str | None) -> None:
    given = ujson.dumps({"text": "a", "rid": rid}).encode()
    assert read(given, "generate").rid() == found


def test_responses_have_no_rid() -> None:
    body = ujson.dumps({"model": "m", "input": "a", "request_id": "r"}).encode()
    assert read(body, "responses").rid() is None


def test_fields_of_the_cache_make_its_partition() -> None:
    body = body_of(cache_salt="s", extra_key="k", lora_path="l", lora_id="i")
    assert tuple(read(body).cache_fields()) == ("s", "k", "l")
    generate = ujson.dumps({"text": "t", "lora_path": "l", "lora_id": "i"}).encode()
    assert tuple(read(generate, "generate").cache_fields()) == (None, None, "i")
