"""The grammar of flags, with flags that no room declares."""

from typing import Any

import pytest

from smgproxy.arguments import UsageError, read_arguments
from smgproxy.core.options import Flag
from smgproxy.settings import DeclaredFlag, SettingsError


def declared(kind: type, default: Any = None, **more: Any) -> DeclaredFlag:
    described = Flag(name="--level", group="General", help="a level", **more)
    return DeclaredFlag("room", "level", kind, default, described)


def read(one: DeclaredFlag, *words: str) -> Any:
    return read_arguments(words, [one]).get(one)


@pytest.mark.parametrize("text", ["-1", "-40"])
def test_whole_number_may_be_negative(text: str) -> None:
    assert read(declared(int), "--level", text) == int(text)
    assert read(declared(int), f"--level={text}") == int(text)


@pytest.mark.parametrize("text", ["-0.5", "-.5", "-5e-1"])
def test_fraction_may_be_negative(text: str) -> None:
    assert read(declared(float), "--level", text) == -0.5


def test_list_may_hold_negative_numbers() -> None:
    numbers = declared(int, (), is_list=True)
    assert read(numbers, "--level", "1", "-2", "--level=-3") == (1, -2, -3)


def test_dash_alone_is_a_value() -> None:
    assert read(declared(str), "--level", "-") == "-"


def test_value_that_begins_with_a_dash_follows_an_equals_sign() -> None:
    with pytest.raises(UsageError, match="--level=VALUE"):
        read(declared(str), "--level", "-key")
    assert read(declared(str), "--level=-key") == "-key"


def test_alias_sets_the_same_value_and_is_named_in_errors() -> None:
    one = declared(int, aliases=("--height",))
    assert read(one, "--level", "1", "--height", "2") == 2
    with pytest.raises(SettingsError, match="^--height: must be a whole number"):
        read(one, "--height", "tall")


@pytest.mark.parametrize(
    ("bounds", "line"),
    [
        ({"maximum": 3}, "--level: must be at most 3, got 7"),
        ({"minimum": 8}, "--level: must be at least 8, got 7"),
        ({"minimum": 0.5, "maximum": 3}, "--level: must be between 0.5 and 3, got 7"),
        (
            {"maximum": 3, "remedy": "more would flood the valley"},
            "--level: must be at most 3, got 7; more would flood the valley",
        ),
    ],
)
def test_bound_is_named_with_its_remedy(bounds: dict[str, Any], line: str) -> None:
    with pytest.raises(SettingsError) as refused:
        read(declared(float, **bounds), "--level", "7")
    assert str(refused.value) == line


def test_bounds_hold_for_what_a_parser_of_its_own_gives() -> None:
    def parse(text: str) -> int:
        return int(text.removesuffix("k")) * 1000

    one = declared(int, parse=parse, maximum=5000)
    assert read(one, "--level", "5k") == 5000
    with pytest.raises(SettingsError, match="must be at most 5000, got 6k"):
        read(one, "--level", "6k")


def test_switch_that_is_on_by_default_has_an_off_form() -> None:
    one = declared(bool, True)
    assert one.spellings == ("--level", "--no-level")
    assert read(one, "--no-level") is False
    assert read(one, "--no-level", "--level") is True


def test_first_fault_of_the_line_is_the_one_reported() -> None:
    with pytest.raises(SettingsError):
        read(declared(int), "--level", "x", "--unknown")
    with pytest.raises(UsageError):
        read(declared(int), "--unknown", "--level", "x")
