"""Waiting lines of one priority class: by entry, or tenant by tenant."""

from __future__ import annotations

from collections import OrderedDict

from smgproxy.admission.ticket import Ticket


class Line:
    """First in, first out; a ticket may also leave from the middle."""

    __slots__ = ("tickets",)

    def __init__(self) -> None:
        # A linked list that finds its members, in order of entry.
        self.tickets: OrderedDict[Ticket, None] = OrderedDict()

    def add(self, ticket: Ticket) -> None:
        """A ticket goes to the end."""
        self.tickets[ticket] = None

    def remove(self, ticket: Ticket) -> None:
        """A ticket leaves unserved."""
        del self.tickets[ticket]

    def first(self) -> Ticket:
        """Who is served next; the line is not empty."""
        return next(iter(self.tickets))

    def take(self) -> Ticket:
        """Remove who is served next; the line is not empty."""
        return self.tickets.popitem(last=False)[0]

    def oldest(self) -> Ticket:
        """Who has waited longest; the line is not empty."""
        return next(iter(self.tickets))


class FairLine(Line):
    """Serves the waiting tenants in turn, each one's tickets in order of entry.

    A tenant's turn is over with one ticket, and a tenant that comes anew is the last:
    so however many tickets one tenant has here, another's first waits for at most one
    of them.
    """

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        super().__init__()
        # Whose turn is next stands first. Nobody is here without a ticket.
        self._turns: OrderedDict[str, OrderedDict[Ticket, None]] = OrderedDict()

    def add(self, ticket: Ticket) -> None:
        """A ticket goes to the end of its tenant's."""
        self.tickets[ticket] = None
        own = self._turns.get(ticket.tenant)
        if own is None:
            own = self._turns[ticket.tenant] = OrderedDict()
        own[ticket] = None

    def remove(self, ticket: Ticket) -> None:
        """A ticket leaves unserved; its tenant keeps its turn if it has others."""
        del self.tickets[ticket]
        own = self._turns[ticket.tenant]
        del own[ticket]
        if not own:
            del self._turns[ticket.tenant]

    def first(self) -> Ticket:
        """The oldest ticket of the tenant whose turn it is."""
        return next(iter(next(iter(self._turns.values()))))

    def take(self) -> Ticket:
        """Remove the oldest ticket of the tenant whose turn it is."""
        tenant, own = self._turns.popitem(last=False)
        ticket, _ = own.popitem(last=False)
        if own:
            self._turns[tenant] = own
        del self.tickets[ticket]
        return ticket
