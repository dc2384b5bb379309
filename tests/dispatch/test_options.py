"""Header names are what a request can carry."""

from __future__ import annotations

import pytest

from smgproxy.dispatch.options import parse_header_name


@pytest.mark.parametrize(
    "name", ["x-request-id", "X-Amzn-Trace-Id", "a", "!#$%&'*+.^_`|~"]
)
def test_a_field_name_is_taken_as_it_is(name: str) -> None:
    assert parse_header_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "x:", "x y", "x,y", ":path", "\u00e9", "x\n", "x\x00", '"x"', "\ud800"]
)
def test_what_no_header_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="must be header names such as x-request-id"):
        parse_header_name(name)
