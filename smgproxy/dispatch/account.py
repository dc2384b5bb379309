"""What is written down of each exchange, once, at its end."""

from __future__ import annotations

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyAborted
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.telemetry.requestlog import RequestLog
from smgproxy.telemetry.stats import HttpStats, PathStats

# nginx's number for a client that left before its answer was complete.
CLIENT_CLOSED_REQUEST = 499
_CLIENT_GONE = Verdict.CLIENT_GONE


class Account:
    """Turns finished exchanges into counters and access-log lines."""

    __slots__ = ("_http", "_log")

    def __init__(self, http: HttpStats, log: RequestLog) -> None:
        self._http = http
        self._log = log

    def opened(self, exchange: Exchange) -> None:
        """A request arrived and its route is known."""
        http = self._http
        http.in_flight += 1
        exchange.counted = counted = http.of(exchange.head.method, exchange.path)
        counted.requests += 1
        exchange.span = self._log.started(exchange.head, exchange.path, exchange.id)

    def finished(self, exchange: Exchange) -> None:
        """The exchange is over, one way or another."""
        self._http.in_flight -= 1
        counted: PathStats = exchange.counted
        status, code = exchange.status, exchange.error_code
        if exchange.committed_at:
            counted.heads.observe(exchange.committed_at - exchange.opened_at)
        if exchange.verdict is _CLIENT_GONE:
            if code == BodyAborted.code:
                status = BodyAborted.status  # it left within its streamed upload
            else:
                status, code = CLIENT_CLOSED_REQUEST, "client_closed_request"
        counted.responses[status, code] += 1
        worker, served = exchange.worker, exchange.served_model
        self._log.ended(
            exchange.span,
            exchange.head,
            exchange.path,
            exchange.id,
            status,
            code,
            "" if worker is None else worker.url,
            monotonic() - exchange.opened_at,
            "" if served is None else served.decode(),
        )
