"""A request's claim to run, and the four verbs that decide about it."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from smgproxy.core.errors import Shed


class State:
    """Where a ticket stands. From HELD to PREEMPTED it occupies a permit.

    FRESH -> WAITING -> HELD -> COMMITTED -> ENDED is the longest way; a ticket may
    leave for ENDED from anywhere, for SHED from FRESH and WAITING, and for PREEMPTED
    from HELD alone.
    """

    FRESH = 0
    WAITING = 1
    HELD = 2
    COMMITTED = 3  # a response byte has left: no longer a victim
    PREEMPTED = 4  # told to stop; the permit is given back with release()
    SHED = 5
    ENDED = 6


class Ticket:
    """One request in front of, or behind, the gate; used once.

    Who waits for it derives a class and overrides the two ``on_`` methods. Neither is
    called from inside the ticket's own ``submit``, nor from inside another ticket's
    ``on_`` method: they follow one after the other, so that both may call any verb.
    They must not raise.

    ``tenant`` and ``priority`` (the priority header as sent) matter to the scheduler
    alone. The other slots belong to the admission room.
    """

    __slots__ = (
        "tenant",
        "priority",
        "state",
        "shed",
        "entered_at",
        "deadline",
        "lane",
        "victim",
        "claimant",
    )

    def __init__(
        self, tenant: str = "anonymous", priority: bytes | None = None
    ) -> None:
        self.tenant = tenant
        self.priority = priority
        self.state = State.FRESH
        self.shed: Shed | None = None  # what on_shed is still to be told
        # Set when it matters: on entry to a queue, ...
        self.entered_at: float
        self.deadline: float
        # ... by the scheduler on submit, ...
        self.lane: Any
        # ... and on preemption: whose slot comes to me, and to whom mine goes.
        self.victim: Ticket
        self.claimant: Ticket

    def on_grant(self) -> None:
        """A permit came, after ``submit`` had said that it must be waited for."""

    def on_shed(self, shed: Shed) -> None:
        """The wait is over without a permit; or, with ``Preempted``, the run is.

        A preempted ticket still occupies its slot: stop the work, then ``release``.
        """

    @property
    def has_permit(self) -> bool:
        """Whether a permit must be given back for it."""
        return State.HELD <= self.state <= State.PREEMPTED

    def commit(self) -> bool:
        """The first response byte is about to leave; False if preempted already.

        The first of this and a preemption wins; a False must not be sent past.
        """
        if self.state == State.HELD:
            self.state = State.COMMITTED
        return self.state == State.COMMITTED


class Admission(Protocol):
    """What decides who runs. ``now`` is monotonic seconds, never falling.

    Every verb is O(1) whatever the number of waiters.
    """

    def submit(self, ticket: Ticket, now: float) -> bool:
        """Ask for a permit: True, it is held; False, ``on_grant`` or ``on_shed`` comes.

        Raises Shed when there is not even a place to wait. After a False,
        ``next_deadline`` may have come nearer; nothing else brings it nearer.
        """

    def cancel(self, ticket: Ticket, now: float) -> None:
        """The request is given up: leave, from whatever state, without being called."""

    def release(self, ticket: Ticket, now: float) -> None:
        """Give the permit back; a waiter gets it at once. Exactly once a permit."""

    def expire(self, now: float) -> None:
        """Let time have its effect: shed who waited too long, promote, refill."""

    def next_deadline(self) -> float | None:
        """When ``expire`` has something to do next, if nothing else happens."""


class Notices:
    """Tickets that are to be told of their fate, told one after the other.

    A callback may call a verb, whose tickets are then told by the outermost call: so
    no callback runs inside another, and the stack stays flat however long the queue.
    """

    __slots__ = ("_due", "_is_telling")

    def __init__(self) -> None:
        self._due: deque[Ticket] = deque()
        self._is_telling = False

    def add(self, ticket: Ticket) -> None:
        """Something happened to a ticket that its owner did not just ask for."""
        self._due.append(ticket)

    def tell(self, submitted: Ticket | None = None) -> None:
        """Call them all, but ``submitted``, whose submit returns the answer itself."""
        if self._is_telling:
            return
        self._is_telling = True
        due = self._due
        try:
            while due:
                ticket = due.popleft()
                if ticket is submitted:
                    continue
                # As it stands now: an earlier callback may have changed it.
                shed = ticket.shed
                if shed is not None:
                    ticket.shed = None
                    ticket.on_shed(shed)
                elif ticket.state == State.HELD:
                    ticket.on_grant()
        finally:
            self._is_telling = False
