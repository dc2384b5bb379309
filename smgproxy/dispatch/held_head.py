"""A response head that waits for the first byte behind it."""

from __future__ import annotations

from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Sink, Source
from smgproxy.core.message import ResponseHead


class HeldHead(Sink):
    """A response of which nothing has left, its head included.

    The first byte commits the exchange. Before it the exchange can be preempted, and
    then nothing of this response ever leaves.
    """

    __slots__ = ("_exchange", "_head")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._head: ResponseHead | None = None
        super().__init__()

    @property
    def source(self) -> Source | None:
        """That of the response itself, which is the one to hold it."""
        return self._exchange.response.source

    @source.setter
    def source(self, source: Source | None) -> None:
        self._exchange.response.source = source

    def start(self, head: ResponseHead) -> None:
        """Keep the head."""
        self._head = head

    def write(self, data: bytes, end: bool = False) -> None:
        """Pass on, behind the head."""
        exchange = self._exchange
        if self._head is not None:
            if not (data or end) or not exchange.ticket.commit():
                return
            head, self._head = self._head, None
            exchange.commit()
            exchange.response.start(head)
        exchange.response.write(data, end)

    def abort(self, error: Exception) -> None:
        """Pass on."""
        self._exchange.response.abort(error)
