"""The access log: a line when a request begins and one at its end, many to a write."""

from __future__ import annotations

import logging
import time

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


class Span:
    """What both lines of a request say of it, put into words once."""

    __slots__ = ("method", "path", "version", "request_id", "shown")

    def __init__(self, method: str, path: str, version: str, request_id: bytes) -> None:
        self.method = method
        self.path = path  # as the client spelt it, without the query
        self.version = version  # HTTP/1.1
        self.request_id = request_id
        self.shown = ""


class RequestLog:
    """Keeps lines until ``flush``, which a timer calls about twice a second.

    INFO below 400 and for 499, WARN for other 4xx, ERROR for 5xx; probes are DEBUG.
    Credentials, query strings and bodies never get here.
    """

    __slots__ = ("_level", "_form", "_lines", "_waiting")

    def __init__(self, level: str, is_json: bool, lines: Lines) -> None:
        self._level = LEVELS[level]
        self._form = _JsonForm() if is_json else _TextForm()
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
        form = self._form
        if not span.shown:
            span.shown = form.show(span)
        self._keep(form.start(span.shown, template in _PROBES))

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
        form = self._form
        if not span.shown:
            span.shown = form.show(span)
        more = ""
        if error_code:
            more = form.more("error_code", error_code)
        if worker:
            more += form.more("worker", worker)
        latency = int(secs * 1_000_000)
        self._keep(form.end(span.shown, level, message, status, latency, more))

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


def _level_of(template: str, status: int, error_code: str) -> int:
    if error_code == "stream_error":
        return logging.ERROR  # the status was sent before the stream broke
    if template in _PROBES:
        return logging.DEBUG
    if status >= 500:
        return logging.ERROR
    is_warning = status >= 400 and status != _CLIENT_CLOSED
    return logging.WARNING if is_warning else logging.INFO


class _TextForm:
    """``TIME LEVEL http_request{...}: TARGET: FILE: LINE: MESSAGE ...`` (contract)."""

    def show(self, span: Span) -> str:
        """The words of a request, still open at the end."""
        identity = quoted(span.request_id.decode("ascii", "replace"))
        return (
            f"http_request{{method={printable(span.method)} "
            f"path={printable(span.path)} version={span.version} "
            f'module="smg" request_id={identity}'
        )

    def start(self, shown: str, is_probe: bool) -> str:
        """A request's first line."""
        level = "DEBUG" if is_probe else " INFO"
        return f"{stamp(time.time())} {level} {shown}{_START_TEXT}"

    def more(self, name: str, value: str) -> str:
        """One more fact behind the message."""
        return f" {name}={quoted(value)}"

    def end(
        self, shown: str, level: str, message: str, status: int, latency: int, more: str
    ) -> str:
        """A request's last line."""
        return (
            f"{stamp(time.time())} {level:>5} {shown} status_code={status} "
            f"latency={latency}{_END_TEXT}{message}{more}"
        )


class _JsonForm:
    """One object a line (contract)."""

    def show(self, span: Span) -> str:
        """The members of a request, still open at the end."""
        identity = quoted(span.request_id.decode("ascii", "replace"))
        return (
            f'{{"method":{quoted(span.method)},"module":"smg",'
            f'"path":{quoted(span.path)},"request_id":{identity},'
            f'"version":"{span.version}"'
        )

    def start(self, shown: str, is_probe: bool) -> str:
        """A request's first line."""
        level = "DEBUG" if is_probe else "INFO"
        scope = f'{shown},"name":"http_request"}}'
        return (
            f'{{"timestamp":"{stamp(time.time())}","level":"{level}",{_START_JSON}'
            f'"span":{scope},"spans":[{scope}]}}'
        )

    def more(self, name: str, value: str) -> str:
        """One more member behind the message."""
        return f',"{name}":{quoted(value)}'

    def end(
        self, shown: str, level: str, message: str, status: int, latency: int, more: str
    ) -> str:
        """A request's last line."""
        scope = (
            f'{shown},"status_code":{status},"latency":{latency},'
            f'"name":"http_request"}}'
        )
        return (
            f'{{"timestamp":"{stamp(time.time())}","level":"{level}",'
            f'"message":"{message}"{more},{_END_JSON}'
            f'"span":{scope},"spans":[{scope}]}}'
        )


def _place_text(target: str, place: tuple[str, int]) -> str:
    return f"}}: {target}: {place[0]}: {place[1]}: "


def _place_json(target: str, place: tuple[str, int]) -> str:
    return f'"target":"{target}","filename":"{place[0]}","line_number":{place[1]},'


_STARTED_AT = place_of(RequestLog.started.__code__)
_ENDED_AT = place_of(RequestLog.ended.__code__)
_START_TEXT = _place_text(_REQUEST, _STARTED_AT) + _STARTED
_END_TEXT = _place_text(_RESPONSE, _ENDED_AT)
_START_JSON = f'"message":"{_STARTED}",' + _place_json(_REQUEST, _STARTED_AT)
_END_JSON = _place_json(_RESPONSE, _ENDED_AT)
