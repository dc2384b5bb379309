"""Responses: which fields and items there are."""

from __future__ import annotations

import pytest
import ujson

from tests.api.reading import fault, read


def asking(**fields: object) -> bytes:
    """A body with these fields beside the usual ones."""
    return ujson.dumps({"model": "m", "input": "hi", **fields}).encode()


def test_a_field_that_nobody_knows_is_no_valid_json_for_this_route() -> None:
    assert "unknown field `zz`" in fault(asking(zz=1), "responses")


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"a": "b"}, "reasoning": {"effort": "low"}, "text": {"zz": 1}},
        {"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "priority": 3},
        {"cache_salt": "s", "vllm_xargs": {}, "structured_outputs": None},
    ],
)
def test_what_the_api_or_an_engine_knows_goes_on_as_sent(
    fields: dict[str, object],
) -> None:
    body = asking(**fields)
    assert read(body, "responses").body is body


def test_items_may_leave_out_that_they_are_messages() -> None:
    items = [{"role": "user", "content": "hi"}, {"type": "zz", "zz": 1}, {"id": "i"}]
    body = asking(input=items)
    assert read(body, "responses").body is body
    assert "`$.input[0]`" in fault(asking(input=[{"role": "user"}]), "responses")
