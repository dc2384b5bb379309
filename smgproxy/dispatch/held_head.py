"""A response head that waits for the first byte behind it."""

from __future__ import annotations

from smgproxy.core.exchange import Exchange
from smgproxy.core.message import ResponseHead
from smgproxy.dispatch.filters import Filter


class HeldHead(Filter):
    """A response of which nothing has left, its head included.

    The first byte commits the exchange. Before it the exchange can be preempted, and
    then nothing of this response ever leaves.
    """

    __slots__ = ("_exchange", "_head")

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.response)
        self._exchange = exchange
        self._head: ResponseHead | None = None

    def start(self, head: ResponseHead) -> None:
        """Keep the head."""
        self._head = head

    def write(self, data: bytes, end: bool = False) -> None:
        """Pass on, behind the head."""
        if self._head is not None:
            exchange = self._exchange
            if not (data or end) or not exchange.ticket.commit():
                return
            head, self._head = self._head, None
            exchange.commit()
            self._inner.start(head)
        self._inner.write(data, end)

    def flush(self) -> None:
        """Not yet."""
