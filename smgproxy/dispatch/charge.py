"""What a tenant is charged: a reservation before routing, settled by the reply."""

from __future__ import annotations

from smgproxy.admission.budgets import Budgets, Reservation, estimate_tokens
from smgproxy.api.bodies import Call
from smgproxy.api.prompt_size import prompt_bytes
from smgproxy.api.token_usage import TAIL_BYTES, Usage, read_usage, usage_of_tail
from smgproxy.core.clock import monotonic
from smgproxy.core.exchange import Exchange
from smgproxy.core.flow import Sink
from smgproxy.core.message import RequestHead
from smgproxy.dispatch.filters import Filter
from smgproxy.routing.hints import token_hint

# How much of a body that streams, unread, counts as text. What is longer is mostly
# images; counted as a whole it would be beyond any budget.
UNREAD_TEXT_BYTES = 64 * 1024


def reserve(budgets: Budgets, exchange: Exchange, call: Call) -> None:
    """Charge the exchange's tenant for its prompt. Raises TenantRateLimited."""
    hinted = _hinted(exchange.head)
    size = 0 if hinted is not None else prompt_bytes(call.body)
    tokens = estimate_tokens(size, hinted)
    exchange.reservation = budgets.reserve(
        exchange.tenant, call.model, tokens, monotonic()
    )


def reserve_text(budgets: Budgets, exchange: Exchange, model: str, text: str) -> None:
    """The same for a prompt beside which there is no text. Raises TenantRateLimited."""
    hinted = _hinted(exchange.head)
    tokens = estimate_tokens(len(text.encode()), hinted)
    exchange.reservation = budgets.reserve(exchange.tenant, model, tokens, monotonic())


def reserve_unread(budgets: Budgets, exchange: Exchange) -> None:
    """The same for a body that streams: by its length. Raises TenantRateLimited."""
    head = exchange.head
    size = min(head.content_length or 0, UNREAD_TEXT_BYTES)
    tokens = estimate_tokens(size, _hinted(head))
    exchange.reservation = budgets.reserve(exchange.tenant, None, tokens, monotonic())


def _hinted(head: RequestHead) -> int | None:
    """How many tokens the prompt has by its client's hint; None without one."""
    tokens = token_hint(head.first)
    return None if tokens is None else len(tokens)


def settle(reservation: Reservation, status: int, body: bytes) -> None:
    """Correct a charge by a whole reply; what is no success keeps its estimate."""
    _settle(reservation, read_usage(body) if 200 <= status < 300 else None)


class TailKeeper(Filter):
    """Passes a stream on and keeps its last bytes, where its usage is told."""

    __slots__ = ("_tail",)

    def __init__(self, inner: Sink) -> None:
        super().__init__(inner)
        self._tail = bytearray()

    def write(self, data: bytes, end: bool = False) -> None:
        """Keep at most twice what is needed, so that little is moved about."""
        tail = self._tail
        tail += data[-TAIL_BYTES:]
        if len(tail) > 2 * TAIL_BYTES:
            del tail[:-TAIL_BYTES]
        self._inner.write(data, end)

    def settle(self, reservation: Reservation, status: int) -> None:
        """Correct a charge by a stream that came to its end."""
        tail = bytes(self._tail)
        found = None
        if 200 <= status < 300:
            # A worker may answer whole where a stream was asked for.
            found = usage_of_tail(tail) or read_usage(tail)
        _settle(reservation, found)


def _settle(reservation: Reservation, usage: Usage | None) -> None:
    if usage is None:
        reservation.close()
    else:
        reservation.settle(usage.prompt, usage.completion, monotonic())
