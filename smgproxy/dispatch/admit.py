"""Between a request and admission: asks for its permit, and waits for its turn.

The only caller of admission's verbs. A request that finds a permit free pays for a
ticket and two calls; a future is made for one that waits, never a task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from smgproxy.admission.alarm import Alarm
from smgproxy.admission.capacity import fleet_capacity
from smgproxy.admission.limiter import Limiter
from smgproxy.admission.options import LimiterOptions, SchedulerOptions
from smgproxy.admission.scheduler import Scheduler
from smgproxy.admission.start import start_admission
from smgproxy.admission.ticket import Ticket
from smgproxy.core.clock import monotonic
from smgproxy.core.errors import Preempted, Shed
from smgproxy.core.exchange import Exchange, Phase, Verdict
from smgproxy.fleet.registry import Registry
from smgproxy.telemetry.admission_metrics import limiter_families, scheduler_families
from smgproxy.telemetry.families import Family
from smgproxy.telemetry.stats import Histogram

_PRIORITY = b"x-smg-priority"


class Permit(Ticket):
    """An exchange's ticket."""

    __slots__ = ("_exchange", "_turn")
    # Whether a response head waits for the first byte behind it (ruling 7).
    holds_head = False

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.tenant, exchange.head.first.get(_PRIORITY))
        self._exchange = exchange

    def wait(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[Shed | None]:
        """What ends with the wait: in a permit, or in a shed."""
        self._turn: asyncio.Future[Shed | None] = loop.create_future()
        return self._turn

    def on_grant(self) -> None:
        """Ticket.on_grant."""
        # Somebody who has just left still gets it, and hands it on.
        if not self._turn.done():
            self._turn.set_result(None)

    def on_shed(self, shed: Shed) -> None:
        """Ticket.on_shed."""
        if isinstance(shed, Preempted):
            self._exchange.cancel(Verdict.PREEMPTED)
        elif not self._turn.done():
            self._turn.set_result(shed)


class Slot(Permit):
    """A ticket of the priority scheduler: it can be preempted until it commits."""

    __slots__ = ()
    holds_head = True


class Gate:
    """The limiter or the scheduler of a gateway, with its clock and its timer."""

    __slots__ = ("admission", "_alarm", "_loop", "_waits", "_kind")

    def __init__(
        self,
        admission: Limiter | Scheduler,
        loop: asyncio.AbstractEventLoop,
        waits: Sequence[Histogram] = (),
    ) -> None:
        """``waits``: what a scheduler feeds, to be shown with its metrics."""
        self.admission = admission
        self._loop = loop
        self._waits = waits
        self._alarm = Alarm(admission, loop.call_later, monotonic)
        self._kind = Slot if isinstance(admission, Scheduler) else Permit

    @property
    def has_scheduler(self) -> bool:
        """Whether it is the scheduler that admits."""
        return self._kind is Slot

    def enter(self, exchange: Exchange) -> asyncio.Future[Shed | None] | None:
        """Ask for a permit; what to wait for when none is free. Raises Shed."""
        ticket = exchange.ticket = self._kind(exchange)
        if self.admission.submit(ticket, monotonic()):
            exchange.phase = Phase.ADMITTED
            return None
        exchange.phase = Phase.QUEUED
        self._alarm.check()
        return ticket.wait(self._loop)

    def take_turn(self, exchange: Exchange, shed: Shed | None) -> None:
        """The wait is over. Raises how, if not with a permit."""
        if shed is not None:
            raise shed
        exchange.phase = Phase.ADMITTED

    def leave(self, exchange: Exchange) -> None:
        """The exchange is over: its permit, or its place in the queue, is free."""
        self.admission.cancel(exchange.ticket, monotonic())

    def families(self) -> Iterable[Family]:
        """What the metrics page shows of it."""
        if isinstance(self.admission, Scheduler):
            return scheduler_families(self.admission, self._waits)
        return limiter_families(self.admission)

    def close(self) -> None:
        """Stop the timer; whoever waits waits on."""
        self._alarm.close()


def open_gate(
    limits: LimiterOptions,
    scheduling: SchedulerOptions,
    registry: Registry,
    waits: Sequence[Histogram],
    loop: asyncio.AbstractEventLoop,
) -> Gate | None:
    """What admits requests for the life of the process; None admits them all.

    A scheduler has as many slots as the ready workers, from change to change.
    """
    admission = start_admission(limits, scheduling, waits)
    if admission is None:
        return None
    if isinstance(admission, Scheduler):

        def fit() -> None:
            ready = [one.labels for one in registry.all() if one.is_ready]
            capacity = fleet_capacity(ready, limits.max_concurrent_requests)
            admission.set_capacity(capacity, monotonic())

        registry.watch(fit)
    return Gate(admission, loop, waits)
