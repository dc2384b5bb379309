"""How much prompt is found in a request's body."""

from __future__ import annotations

import pytest

from smgproxy.api import prompt_size
from smgproxy.api.prompt_size import prompt_bytes


@pytest.mark.parametrize(
    ("body", "size"),
    [
        (b'{"model":"m","messages":[{"role":"user","content":"12345"}]}', 5),
        (
            b'{"messages":[{"content":"123"},'
            b'{"content":[{"type":"text","text":"45"}]}]}',
            5,
        ),
        (b'{"system":[{"type":"text","text":"12"}],"messages":[]}', 2),
        (b'{"prompt":"12345"}', 5),
        (b'{"prompt":["12","345"]}', 5),
        (b'{"prompt":[1,2,3]}', 12),
        (b'{"prompt":[[1,2],[3]]}', 12),
        (b'{"input":"12345"}', 5),
        (
            b'{"input":[{"role":"user",'
            b'"content":[{"type":"input_text","text":"123"}]}]}',
            3,
        ),
        (b'{"text":"12345"}', 5),
        (b'{"input_ids":[1,2]}', 8),
        (b'{"query":"12","documents":["3",{"text":"45"}]}', 5),
        ('{"prompt":"éé"}'.encode(), 4),
        (b'{"messages":null}', 0),
        (b"{}", 0),
    ],
)
def test_text_of_each_api_is_found(body: bytes, size: int) -> None:
    assert prompt_bytes(body) == size


def test_images_are_no_text() -> None:
    image = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%s"}}'
    body = b'{"messages":[{"content":[{"type":"text","text":"hi"},%s]}]}'
    assert prompt_bytes(body % (image % (b"A" * 100_000))) == 2


@pytest.mark.parametrize("body", [b"[]", b"nothing", b'{"prompt":"1"', b""])
def test_body_that_cannot_be_read_counts_as_a_whole(body: bytes) -> None:
    assert prompt_bytes(body) == len(body)


def test_huge_body_is_not_taken_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_size, "MAX_PARSED_BYTES", 10)
    body = b'{"prompt":"12345"}'
    assert prompt_bytes(body) == len(body)


def test_deep_nesting_is_no_recursion() -> None:
    deep = b'{"prompt":' + b"[" * 900 + b'"12"' + b"]" * 900 + b"}"
    assert prompt_bytes(deep) == 2
