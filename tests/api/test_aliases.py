"""--model-alias is checked when the gateway starts."""

from __future__ import annotations

import pytest

from smgproxy.api.aliases import AliasOptions, parse_alias


def test_a_name_may_hold_further_equals_signs_behind_the_first() -> None:
    options = AliasOptions((parse_alias("a=b=c"), parse_alias("d=b")))
    assert options.canonical_names() == {"a": "b=c", "d": "b"}


@pytest.mark.parametrize("text", ["", "a", "=b", "a=", "="])
def test_both_names_are_needed(text: str) -> None:
    with pytest.raises(ValueError, match="must be ALIAS=CANONICAL"):
        parse_alias(text)


def test_a_name_does_not_stand_for_itself() -> None:
    with pytest.raises(ValueError, match="must stand for another name"):
        parse_alias("a=a")


def test_an_alias_stands_for_one_model() -> None:
    AliasOptions(("a=b", "a=b"))
    with pytest.raises(ValueError, match="^--model-alias: 'a' stands for two models"):
        AliasOptions(("a=b", "a=c"))
