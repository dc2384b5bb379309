"""The standing-concurrency limit: permits, and a bounded queue for them.

A permit is held from admission to the last byte of the response, so the cap bounds
the requests in flight, long streams included (seed: Rate Limiting).
"""

from __future__ import annotations

from collections import OrderedDict

from smgproxy.admission.bucket import TokenBucket
from smgproxy.admission.stats import LimiterStats
from smgproxy.admission.ticket import Notices, State, Ticket
from smgproxy.core.errors import AdmissionQueueFull, AdmissionQueueTimeout


class Limiter:
    """At most ``capacity`` permits; a freed one goes to whoever waited longest.

    The hand-over is direct: while anybody waits no permit is free, so that a newcomer
    cannot get in between. ``queue_timeout_secs`` counts from the entry to the queue.
    """

    __slots__ = (
        "in_flight",
        "stats",
        "_capacity",
        "_queue_size",
        "_timeout",
        "_queue",
        "_notices",
    )

    def __init__(
        self, capacity: int, queue_size: int, queue_timeout_secs: float
    ) -> None:
        self.in_flight = 0
        self.stats = LimiterStats()
        self._capacity = capacity
        self._queue_size = queue_size
        self._timeout = queue_timeout_secs
        # A linked list that finds its members: all have the same timeout, so the
        # order of entry is the order of the deadlines too.
        self._queue: OrderedDict[Ticket, None] = OrderedDict()
        self._notices = Notices()

    @property
    def depth(self) -> int:
        """How many wait."""
        return len(self._queue)

    def submit(self, ticket: Ticket, now: float) -> bool:
        """Admission.submit; raises AdmissionQueueFull."""
        if self.in_flight < self._capacity:
            self.in_flight += 1
            self.stats.allowed += 1
            ticket.state = State.HELD
            return True
        self._enqueue(ticket, now)
        return False

    def cancel(self, ticket: Ticket, now: float) -> None:
        """Admission.cancel; who leaves the queue is counted nowhere (observed)."""
        if ticket.has_permit:
            self.release(ticket, now)
        elif ticket.state == State.WAITING:
            del self._queue[ticket]
        ticket.state = State.ENDED
        ticket.shed = None

    def release(self, ticket: Ticket, now: float) -> None:
        """Admission.release."""
        assert State.HELD <= ticket.state <= State.PREEMPTED, ticket.state
        ticket.state = State.ENDED
        self.in_flight -= 1
        if self._queue:
            self._grant_oldest()
            self._notices.tell()

    def expire(self, now: float) -> None:
        """Admission.expire: shed those whose time is up."""
        while self._queue:
            oldest = next(iter(self._queue))
            if oldest.deadline > now:
                break
            del self._queue[oldest]
            self.stats.timed_out += 1
            oldest.state = State.SHED
            oldest.shed = AdmissionQueueTimeout()
            self._notices.add(oldest)
        self._notices.tell()

    def next_deadline(self) -> float | None:
        """Admission.next_deadline: the oldest waiter's."""
        return next(iter(self._queue)).deadline if self._queue else None

    def _enqueue(self, ticket: Ticket, now: float) -> None:
        if len(self._queue) >= self._queue_size:
            ticket.state = State.SHED
            if self._queue_size:
                self.stats.turned_away += 1
            else:
                self.stats.unqueued += 1
            raise AdmissionQueueFull(self._queue_size > 0)
        ticket.state = State.WAITING
        ticket.deadline = now + self._timeout
        self._queue[ticket] = None

    def _grant_oldest(self) -> None:
        ticket, _ = self._queue.popitem(last=False)
        ticket.state = State.HELD
        self.in_flight += 1
        self.stats.allowed += 1
        self._notices.add(ticket)


class RefillLimiter(Limiter):
    """Permits that come back by themselves, too: ``per_second`` of them (ruling 5).

    One bucket: admission takes a token, a finished response returns it, and time adds
    more up to ``capacity``. So the requests in flight can climb past ``capacity``. No
    order is promised; nobody waits longer than one token takes to come.
    """

    __slots__ = ("_bucket",)

    def __init__(
        self,
        capacity: int,
        queue_size: int,
        queue_timeout_secs: float,
        per_second: int,
    ) -> None:
        timeout = min(queue_timeout_secs, 1 / per_second)
        super().__init__(capacity, queue_size, timeout)
        self._bucket = TokenBucket(capacity, per_second)

    def submit(self, ticket: Ticket, now: float) -> bool:
        """Admission.submit; raises AdmissionQueueFull."""
        if self._bucket.take(now):
            self.in_flight += 1
            self.stats.allowed += 1
            ticket.state = State.HELD
            return True
        self._enqueue(ticket, now)
        return False

    def release(self, ticket: Ticket, now: float) -> None:
        """Admission.release: the token goes back, and to a waiter if there is one."""
        assert State.HELD <= ticket.state <= State.PREEMPTED, ticket.state
        ticket.state = State.ENDED
        self.in_flight -= 1
        self._bucket.put_back()
        self._drain(now)

    def expire(self, now: float) -> None:
        """Admission.expire: tokens that came in time go first, then who is late."""
        self._drain(now)
        super().expire(now)

    def next_deadline(self) -> float | None:
        """Admission.next_deadline: the next token's moment, or the oldest waiter's."""
        if not self._queue:
            return None
        return min(next(iter(self._queue)).deadline, self._bucket.next_at())

    def _drain(self, now: float) -> None:
        while self._queue and self._bucket.take(now):
            self._grant_oldest()
        self._notices.tell()
