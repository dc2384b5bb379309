"""The access log: a line when a request begins and one at its end, many to a write."""

from __future__ import annotations

import logging
import time
from typing import NamedTuple

from smgproxy.telemetry.logs import LEVELS, place_of, printable, quoted, stamp
from smgproxy.telemetry.output import Lines

# Lines that wait for a timer; more are passed on at once, and bounded there.
MAX_WAITING = 1000
_PROBES = frozenset(("/health", "/liveness", "/readiness"))
_REQUEST, _RESPONSE = "smg::request", "smg::response"
_STARTED = "started processing request"
# The name of a level, and what the last line of that level says (contract, logging).
_SAYS = {
    logging.DEBUG: ("DEBUG", "finished probe request"),
    logging.INFO: ("INFO", "finished processing request"),
    logging.WARNING: ("WARN", "request failed with client error"),
    logging.ERROR: ("ERROR", "request failed with server error"),
}
_BROKEN = "response stream failed after the head was sent"
# Clients that hang up, which is their right: nginx has such lines at info as well.
_CLIENT_CLOSED = 499
_LEFT = "client closed the request"


class Span(NamedTuple):
    """What both lines of a request say of it."""

    method: str
    path: str  # as the client spelt it, without the query
    version: str  # HTTP/1.1
    request_id: bytes


class RequestLog:
    """Keeps lines until ``flush``, which a timer calls about twice a second.

    INFO below 400 and for 499, WARN for other 4xx, ERROR for 5xx; probes are DEBUG.
    Credentials, query strings and bodies never get here.
    """

    __slots__ = ("_level", "_line", "_lines", "_waiting")

    def __init__(self, level: str, is_json: bool, lines: Lines) -> None:
        self._level = LEVELS[level]
        self._line = _json_line if is_json else _text_line
        self._lines = lines
        self._waiting: list[str] = []

    def wants_start(self, template: str) -> bool:
        """Whether the beginning of a request of this route is to be recorded."""
        return _level_of(template, 200, "") >= self._level

    def wants_end(self, template: str, status: int, error_code: str) -> bool:
        """Whether a request that ended so is to be recorded."""
        return _level_of(template, status, error_code) >= self._level

    def started(self, span: Span, template: str) -> None:
        """Keep the line of a request that began."""
        level, _ = _SAYS[_level_of(template, 200, "")]
        self._keep(self._line(level, _REQUEST, _STARTED, _STARTED_AT, span, "", ""))

    def ended(
        self,
        span: Span,
        template: str,
        *,
        status: int,
        error_code: str,
        worker: str,
        secs: float,
    ) -> None:
        """Keep the line of a request that is over."""
        level, message = _SAYS[_level_of(template, status, error_code)]
        if error_code == "stream_error":
            message = _BROKEN
        elif status == _CLIENT_CLOSED:
            message = _LEFT
        end = (status, int(secs * 1_000_000))
        self._keep(
            self._line(
                *(level, _RESPONSE, message, _ENDED_AT, span, error_code, worker, end)
            )
        )

    def flush(self) -> None:
        """Write what waits, with one write."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._lines.write("\n".join(waiting) + "\n")
        self._lines.flush()

    def _keep(self, line: str) -> None:
        self._waiting.append(line)
        if len(self._waiting) >= MAX_WAITING:
            self.flush()


_STARTED_AT = place_of(RequestLog.started.__code__)
_ENDED_AT = place_of(RequestLog.ended.__code__)


def _level_of(template: str, status: int, error_code: str) -> int:
    if error_code == "stream_error":
        return logging.ERROR  # the status was sent before the stream broke
    if template in _PROBES:
        return logging.DEBUG
    if status >= 500:
        return logging.ERROR
    is_warning = status >= 400 and status != _CLIENT_CLOSED
    return logging.WARNING if is_warning else logging.INFO


def _text_line(
    level: str,
    target: str,
    message: str,
    place: tuple[str, int],
    span: Span,
    error_code: str,
    worker: str,
    end: tuple[int, int] | None = None,
) -> str:
    method, path, version, request_id = span
    identity = quoted(request_id.decode("ascii", "replace"))
    ends = f" status_code={end[0]} latency={end[1]}" if end else ""
    code = f" error_code={quoted(error_code)}" if error_code else ""
    sent_to = f" worker={quoted(worker)}" if worker else ""
    return (
        f"{stamp(time.time())} {level:>5} http_request{{method={printable(method)} "
        f'path={printable(path)} version={version} module="smg" request_id={identity}'
        f"{ends}}}: {target}: {place[0]}: {place[1]}: {message}{code}{sent_to}"
    )


def _json_line(
    level: str,
    target: str,
    message: str,
    place: tuple[str, int],
    span: Span,
    error_code: str,
    worker: str,
    end: tuple[int, int] | None = None,
) -> str:
    method, path, version, request_id = span
    identity = quoted(request_id.decode("ascii", "replace"))
    ends = f',"status_code":{end[0]},"latency":{end[1]}' if end else ""
    code = f',"error_code":{quoted(error_code)}' if error_code else ""
    sent_to = f',"worker":{quoted(worker)}' if worker else ""
    scope = (
        f'{{"method":{quoted(method)},"module":"smg","path":{quoted(path)},'
        f'"request_id":{identity},"version":"{version}"{ends},"name":"http_request"}}'
    )
    return (
        f'{{"timestamp":"{stamp(time.time())}","level":"{level}",'
        f'"message":"{message}"{code}{sent_to},"target":"{target}",'
        f'"filename":"{place[0]}","line_number":{place[1]},'
        f'"span":{scope},"spans":[{scope}]}}'
    )
