"""Settings declared where they are used."""

from __future__ import annotations

import dataclasses

from smgproxy.core.options import flag, flags_of


@dataclasses.dataclass(frozen=True)
class Sample:
    """A room's settings."""

    size_bytes: int = flag(7, "--size", "Group", "how much", minimum=1, maximum=9)
    plain: int = 3
    names: tuple[str, ...] = flag((), "--names", "Group", "who", is_list=True)


def test_a_flag_is_a_field_with_its_default() -> None:
    assert Sample().size_bytes == 7
    assert dataclasses.replace(Sample(), size_bytes=8).size_bytes == 8


def test_flags_come_in_order_of_declaration_without_other_fields() -> None:
    found = flags_of(Sample)
    assert [described.name for _, described in found] == ["--size", "--names"]
    assert [field.name for field, _ in found] == ["size_bytes", "names"]


def test_a_flag_knows_its_bounds() -> None:
    _, described = flags_of(Sample())[0]
    assert (described.minimum, described.maximum) == (1, 9)
    assert (described.group, described.help) == ("Group", "how much")
