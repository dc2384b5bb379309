"""What is written down of each exchange, once, at its end."""

from __future__ import annotations

from smgproxy.core.clock import monotonic
from smgproxy.core.errors import BodyAborted
from smgproxy.core.exchange import Exchange, Verdict
from smgproxy.telemetry.requestlog import RequestLog, Span
from smgproxy.telemetry.stats import HttpStats

# nginx's number for a client that left before its answer was complete.
CLIENT_CLOSED_REQUEST = 499


class Account:
    """Turns finished exchanges into counters and access-log lines."""

    __slots__ = ("_http", "_log")

    def __init__(self, http: HttpStats, log: RequestLog) -> None:
        self._http = http
        self._log = log

    def opened(self, exchange: Exchange) -> None:
        """A request arrived and its route is known."""
        self._http.in_flight += 1
        self._http.count_request(exchange.head.method, exchange.path)
        if self._log.wants_start(exchange.path):
            exchange.span = span = _span(exchange)
            self._log.started(span, exchange.path)

    def finished(self, exchange: Exchange) -> None:
        """The exchange is over, one way or another."""
        http = self._http
        http.in_flight -= 1
        status, code = exchange.status, exchange.error_code
        if exchange.committed_at:
            http.observe_head(
                exchange.head.method,
                exchange.path,
                exchange.committed_at - exchange.opened_at,
            )
        if exchange.verdict is Verdict.CLIENT_GONE:
            if code == BodyAborted.code:
                status = BodyAborted.status  # it left within its streamed upload
            else:
                status, code = CLIENT_CLOSED_REQUEST, "client_closed_request"
        http.count_response(exchange.path, status, code)
        if self._log.wants_end(exchange.path, status, code):
            worker = exchange.worker
            self._log.ended(
                exchange.span or _span(exchange),
                exchange.path,
                status=status,
                error_code=code,
                worker="" if worker is None else worker.url,
                secs=monotonic() - exchange.opened_at,
            )


def _span(exchange: Exchange) -> Span:
    head = exchange.head
    if head.is_http2:
        version = "HTTP/2.0"
    else:
        version = "HTTP/1.0" if head.is_http10 else "HTTP/1.1"
    return Span(head.method, head.path, version, exchange.id)
