"""Telling a data-parallel engine which of its ranks a request is for."""

from __future__ import annotations

import json

import pytest

from smgproxy.api.steps import at_once
from smgproxy.dispatch.ranks import rankless_steps, with_rank


@pytest.mark.parametrize(
    "body, sent",
    [
        (b'{"a":1}', b'{"a":1,"data_parallel_rank":3}'),
        (b' {"a": {}}\r\n ', b' {"a": {},"data_parallel_rank":3}'),
        (b'{"a": "}"  }', b'{"a": "}"  ,"data_parallel_rank":3}'),
        (b"{}", b'{"data_parallel_rank":3}'),
        (b" { \n} ", b' { \n"data_parallel_rank":3}'),
        (b'{"data_parallel_rank":7,"a":1.0}', b'{"a":1.0,"data_parallel_rank":3}'),
        (
            b'{"data_parallel_ran\\u006b":7,"a":1.0}',
            b'{"a":1.0,"data_parallel_rank":3}',
        ),
        (
            b'{ "a":{"data_parallel_rank":7}, "b":"\\u00e9" }',
            b'{ "a":{"data_parallel_rank":7}, "b":"\\u00e9" ,"data_parallel_rank":3}',
        ),
        (
            b'{"a":"\\"data_parallel_rank\\""}',
            b'{"a":"\\"data_parallel_rank\\"","data_parallel_rank":3}',
        ),
        (b'{"a":"{"}', b'{"a":"{","data_parallel_rank":3}'),
    ],
)
def test_the_rank_is_the_last_field_and_the_rest_is_as_it_was(
    body: bytes, sent: bytes
) -> None:
    assert with_rank(at_once(rankless_steps(body)), 3) == sent
    assert json.loads(sent) == {**json.loads(body), "data_parallel_rank": 3}
