"""The parsers that a worker may name."""

from __future__ import annotations

import pytest

from smgproxy.fleet.fields import InvalidSpec
from smgproxy.fleet.parsers import REASONING_PARSERS, TOOL_PARSERS, check_parsers


def test_every_parser_of_the_contract_is_known() -> None:
    assert (len(TOOL_PARSERS), len(REASONING_PARSERS)) == (26, 21)
    for name in TOOL_PARSERS:
        check_parsers("labels", {"tool_parser": name})
    for name in REASONING_PARSERS:
        check_parsers("labels", {"reasoning_parser": name})


@pytest.mark.parametrize("named", [{}, {"tool_parser": ""}, {"other_parser": "x"}])
def test_no_name_is_no_fault(named: dict[str, str]) -> None:
    check_parsers("labels", named)


@pytest.mark.parametrize(
    "field, name, fault",
    [
        ("tool_parser", "kimi", "unknown tool-call parser 'kimi'"),
        ("reasoning_parser", "kimik2", "unknown reasoning parser 'kimik2'"),
        ("reasoning_parser", "Qwen3", "unknown reasoning parser 'Qwen3'"),
        ("tool_parser", "a\nb", "unknown tool-call parser 'a\\nb'"),
    ],
)
def test_an_unknown_name_is_told_with_its_place(
    field: str, name: str, fault: str
) -> None:
    with pytest.raises(InvalidSpec) as refused:
        check_parsers("models[3]", {field: name})
    text = f"Invalid value for field 'models[3].{field}': {fault}"
    assert str(refused.value) == text


def test_a_long_name_is_cut_short() -> None:
    with pytest.raises(InvalidSpec) as refused:
        check_parsers("labels", {"tool_parser": "x" * 5000})
    assert len(str(refused.value)) < 200
