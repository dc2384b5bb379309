"""The four priority classes, their limits, and who may use which."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

# In rising order: a class's rank is its place here.
CLASS_NAMES = ("bulk", "default", "interactive", "system")
RANKS = {name: rank for rank, name in enumerate(CLASS_NAMES)}
DEFAULT_RANK = RANKS["default"]

_RANKS_BY_HEADER = {name.encode(): rank for name, rank in RANKS.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class ClassLimits:
    """What one class is promised, and how long its requests may wait.

    Of the capacity, ``reserved_floor`` slots or ``reserved_per_slot`` of each slot are
    kept free of lower classes, whichever is more.
    """

    reserved_floor: int
    reserved_per_slot: float
    queue_size: int
    queue_timeout_secs: int
    starvation_threshold_secs: int
    can_preempt: bool


# The contract's rows, in the order of CLASS_NAMES.
BUILT_IN = (
    ClassLimits(0, 0.0, 1024, 300, 120, False),
    ClassLimits(0, 0.10, 512, 60, 30, False),
    ClassLimits(128, 0.25, 256, 30, 5, True),
    ClassLimits(32, 0.0, 64, 30, 5, True),
)


@dataclasses.dataclass(frozen=True)
class SchedulerConfig:
    """What --priority-scheduler-config says, on top of the built-in classes.

    ``limits`` are in order of rank; ``ceilings`` are ranks by tenant key. ``notices``
    are lines for the log about what is valid and yet without effect.
    """

    limits: tuple[ClassLimits, ...] = BUILT_IN
    ceilings: dict[str, int] = dataclasses.field(default_factory=dict)
    notices: tuple[str, ...] = ()


class ReservationsTooLarge(ValueError):
    """The classes are promised more slots than there are at start."""

    def __init__(self, wanted: int, capacity: int) -> None:
        super().__init__(
            f"sum of class reservations ({wanted}) exceeds capacity ({capacity})"
        )


def wanted_slots(limits: Sequence[ClassLimits], capacity: int) -> list[int]:
    """What each class would reserve of ``capacity`` slots if it were alone."""
    return [
        # The product is cut before it is rounded: a share may be any finite number.
        min(
            capacity,
            max(
                one.reserved_floor,
                math.ceil(min(one.reserved_per_slot * capacity, capacity)),
            ),
        )
        for one in limits
    ]


def scaled_slots(wanted: Sequence[int], capacity: int) -> list[int]:
    """Reservations that fit: in proportion when together they exceed the capacity."""
    total = sum(wanted)
    if total <= capacity:
        return list(wanted)
    return [one * capacity // total for one in wanted]


class Ceilings:
    """The highest class each tenant may use."""

    __slots__ = ("_default", "_by_tenant")

    def __init__(
        self, default: int = DEFAULT_RANK, by_tenant: Mapping[str, int] | None = None
    ) -> None:
        self._default = default
        self._by_tenant = dict(by_tenant or {})

    def of(self, tenant: str) -> int:
        """The rank a tenant's requests are held down to."""
        return self._by_tenant.get(tenant, self._default)


def rank_of_header(value: bytes | None) -> int | None:
    """The class a priority header asks for; None if it names no class.

    Any case, blanks around it ignored; an absent or empty header asks for default.
    """
    if value is None:
        return DEFAULT_RANK
    rank = _RANKS_BY_HEADER.get(value)
    if rank is not None:
        return rank
    word = value.strip().lower()
    return _RANKS_BY_HEADER.get(word) if word else DEFAULT_RANK
