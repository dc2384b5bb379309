"""The classes' arithmetic: what is reserved of which capacity."""

from __future__ import annotations

import pytest

from smgproxy.admission.classes import BUILT_IN, scaled_slots, wanted_slots
from tests.admission.asking import limits


def test_the_larger_of_floor_and_share_is_wanted() -> None:
    floor, share = limits(8, per_slot=0.25), limits(2, per_slot=0.25)
    assert wanted_slots([floor, share], 16) == [8, 4]


def test_a_share_is_rounded_up() -> None:
    assert wanted_slots([limits(per_slot=0.10)], 11) == [2]


def test_no_class_wants_more_than_there_is() -> None:
    assert wanted_slots([limits(128), limits(per_slot=3.5)], 64) == [64, 64]


def test_any_finite_share_can_be_counted_with() -> None:
    assert wanted_slots([limits(per_slot=1e308)], 1_000_000) == [1_000_000]


@pytest.mark.parametrize(
    ("capacity", "reserved"),
    [(64, [0, 4, 39, 19]), (4, [0, 0, 1, 1]), (2, [0, 0, 0, 0])],
)
def test_what_does_not_fit_is_scaled_down_and_rounded_down(
    capacity: int, reserved: list[int]
) -> None:
    assert scaled_slots(wanted_slots(BUILT_IN, capacity), capacity) == reserved


def test_what_fits_stays_as_it_is() -> None:
    assert scaled_slots([1, 2, 3, 4], 10) == [1, 2, 3, 4]
