"""One priority class at work: its line, its slots, and what it may take."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple, Protocol

from smgproxy.admission.classes import CLASS_NAMES, ClassLimits
from smgproxy.admission.line import Line
from smgproxy.admission.stats import ClassStats
from smgproxy.admission.ticket import State, Ticket


class Observer(Protocol):
    """A histogram, as far as it is fed here."""

    def observe(self, value: float, /) -> None:
        """Count one value."""


class LaneState(NamedTuple):
    """One class at the moment of a scrape."""

    name: str
    in_flight: int
    depth: int
    queue_size: int
    pressure: float


class Lane:
    """The state of one class; the scheduler alone changes it.

    ``running`` holds, in order of admission, those that a higher class may still
    preempt. Who commits stays in it until somebody looks: that is cheaper than to take
    everybody out.
    """

    __slots__ = (
        "name",
        "limits",
        "line",
        "waits",
        "stats",
        "in_flight",
        "reserved",
        "claims",
        "running",
        "above",
        "below",
        "is_preemptible",
    )

    def __init__(
        self, rank: int, limits: ClassLimits, line: Line, waits: Observer | None
    ) -> None:
        self.name = CLASS_NAMES[rank]
        self.limits = limits
        self.line = line
        self.waits = waits
        self.stats = ClassStats()
        self.in_flight = 0
        self.reserved = 0
        # Waiters that a victim's slot is on its way to: they take no queue place.
        self.claims = 0
        self.running: OrderedDict[Ticket, None] = OrderedDict()
        self.above: tuple[Lane, ...] = ()
        self.below: tuple[Lane, ...] = ()  # lowest first
        self.is_preemptible = False

    def place(self, lanes: tuple[Lane, ...], rank: int) -> None:
        """Show the lane its neighbours, of all lanes in order of rank."""
        self.below = lanes[:rank]
        self.above = lanes[rank + 1 :]
        self.is_preemptible = any(each.limits.can_preempt for each in self.above)

    @property
    def has_queue_room(self) -> bool:
        """Whether another one may wait for its turn."""
        return self.queued < self.limits.queue_size

    @property
    def queued(self) -> int:
        """Waiters that take a place of the queue."""
        return len(self.line.tickets) - self.claims

    def has_headroom(self, free: int) -> bool:
        """Whether one more may run on ``free`` slots, reservations above kept.

        The class's own reservation, and those below, never stand in its way.
        """
        for each in self.above:
            idle = each.reserved - each.in_flight
            if idle > 0:
                free -= idle
        return free >= 1

    def is_starved(self, now: float) -> bool:
        """Whether somebody has waited for the starvation threshold."""
        return bool(self.line.tickets) and now >= self.starves_at()

    def starves_at(self) -> float:
        """When the oldest waiter has waited too long; the line is not empty."""
        entered_at = self.line.oldest().entered_at
        return entered_at + self.limits.starvation_threshold_secs

    def pick_victim(self) -> Ticket | None:
        """Whose slot the class may take: the lowest class, the latest admitted.

        The victim is removed from ``running``: to pick it is to preempt it.
        """
        if not self.limits.can_preempt:
            return None
        for lower in self.below:
            while lower.running:
                ticket, _ = lower.running.popitem()
                if ticket.state == State.HELD:
                    return ticket
        return None

    def state(self, capacity: int) -> LaneState:
        """The figures of a scrape.

        Pressure, 0 to 1, is how full the queue is, or how much of the slots that the
        reservations above leave to the class is in use, whichever is more.
        """
        depth, size = len(self.line.tickets), self.limits.queue_size
        usable = capacity - sum(each.reserved for each in self.above)
        pressure = max(depth / size if size else 0, self.in_flight / max(usable, 1))
        return LaneState(self.name, self.in_flight, depth, size, min(1.0, pressure))
