"""The access log: a line when a request begins and one at its end, many to a write."""

from __future__ import annotations

import logging
import time

from smgproxy.core.message import RequestHead
from smgproxy.telemetry.logs import LEVELS, place_of, printable, quoted, stamp
from smgproxy.telemetry.output import Lines
from smgproxy.telemetry.stats import METHODS

# Lines that wait for a timer; more are passed on at once, and bounded there.
MAX_WAITING = 1000
# Workers whose words are kept; a fleet whose members come and go starts over.
MAX_WORKERS = 1024
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


class RequestLog:
    """Keeps lines until ``flush``, which a timer calls about twice a second.

    INFO below 400 and for 499, WARN for other 4xx, ERROR for 5xx; probes are DEBUG.
    Credentials, query strings and bodies never get here.
    """

    __slots__ = (
        *("_level", "_form", "_lines", "_waiting", "_second", "_stamp"),
        *("_beginnings", "_workers"),
    )

    def __init__(self, level: str, is_json: bool, lines: Lines) -> None:
        self._level = LEVELS[level]
        self._form = _JsonForm() if is_json else _TextForm()
        self._lines = lines
        self._waiting: list[str] = []
        self._second = 0  # the last one something was written in, and how it is shown
        self._stamp = ""
        # What was put into words before: of requests by method and template, of
        # workers by URL. Both are few.
        self._beginnings: dict[tuple[str, str, str], str] = {}
        self._workers: dict[str, str] = {}

    def started(self, head: RequestHead, template: str, request_id: bytes) -> str:
        """Keep the line of a request that began.

        Returns what its last line repeats; nothing when neither line is wanted so far.
        """
        is_probe = template in _PROBES
        if self._level > (logging.DEBUG if is_probe else logging.INFO):
            return ""
        span = self._span(head, template, request_id)
        self._keep(self._form.start(self._now(), span, is_probe))
        return span

    def ended(
        self,
        span: str,
        head: RequestHead,
        template: str,
        request_id: bytes,
        *,
        status: int,
        error_code: str,
        worker: str,
        secs: float,
        served_model: str = "",
    ) -> None:
        """Keep the line of a request that is over; ``span`` as ``started`` gave it."""
        number = _level_of(template, status, error_code)
        if number < self._level:
            return
        level, message = _SAYS[number]
        if error_code == "stream_error":
            message = _BROKEN
        elif status == _CLIENT_CLOSED:
            message = _LEFT
        form = self._form
        more = form.more("error_code", error_code) if error_code else ""
        if worker:
            more += self._workers.get(worker) or self._worker(worker)
        if served_model:
            more += form.more("served_model", served_model)
        if not span:
            span = self._span(head, template, request_id)
        latency = int(secs * 1_000_000)
        self._keep(form.end(self._now(), span, level, message, status, latency, more))

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

    def _now(self) -> str:
        now = int(time.time())
        if now != self._second:
            self._second, self._stamp = now, stamp(now)
        return self._stamp

    def _span(self, head: RequestHead, template: str, request_id: bytes) -> str:
        """The words for a request, still open at the end."""
        method, path = head.method, head.path
        if head.is_http2:
            version = "HTTP/2.0"
        else:
            version = "HTTP/1.0" if head.is_http10 else "HTTP/1.1"
        identity = quoted(request_id.decode("ascii", "replace"))
        form = self._form
        if path != template or method not in METHODS:
            # The client's own spelling: of those there may be any number.
            return form.span(form.beginning(method, path, version), version, identity)
        key = (method, template, version)
        beginning = self._beginnings.get(key)
        if beginning is None:
            beginning = self._beginnings[key] = form.beginning(*key)
        return form.span(beginning, version, identity)

    def _worker(self, url: str) -> str:
        if len(self._workers) >= MAX_WORKERS:
            self._workers.clear()
        shown = self._workers[url] = self._form.more("worker", url)
        return shown


def _level_of(template: str, status: int, error_code: str) -> int:
    if error_code == "stream_error":
        return logging.ERROR  # the status was sent before the stream broke
    if template in _PROBES:
        return logging.DEBUG
    if status < 400:
        return logging.INFO
    if status >= 500:
        return logging.ERROR
    return logging.INFO if status == _CLIENT_CLOSED else logging.WARNING


class _TextForm:
    """``TIME LEVEL http_request{...}: TARGET: FILE: LINE: MESSAGE ...`` (contract)."""

    def beginning(self, method: str, path: str, version: str) -> str:
        """What comes before a request's id."""
        return (
            f"http_request{{method={printable(method)} path={printable(path)} "
            f'version={version} module="smg" request_id='
        )

    def span(self, beginning: str, version: str, identity: str) -> str:
        """The words for a request, still open at the end."""
        return beginning + identity

    def start(self, now: str, span: str, is_probe: bool) -> str:
        """A request's first line."""
        return f"{now} {'DEBUG' if is_probe else ' INFO'} {span}{_START_TEXT}"

    def more(self, name: str, value: str) -> str:
        """One more fact behind the message."""
        return f" {name}={quoted(value)}"

    def end(
        self,
        now: str,
        span: str,
        level: str,
        message: str,
        status: int,
        latency: int,
        more: str,
    ) -> str:
        """A request's last line."""
        return (
            f"{now} {level:>5} {span} status_code={status} "
            f"latency={latency}{_END_TEXT}{message}{more}"
        )


class _JsonForm:
    """One object a line (contract)."""

    def beginning(self, method: str, path: str, version: str) -> str:
        """What comes before a request's id."""
        return (
            f'{{"method":{quoted(method)},"module":"smg","path":{quoted(path)},'
            f'"request_id":'
        )

    def span(self, beginning: str, version: str, identity: str) -> str:
        """The members of a request, still open at the end."""
        return f'{beginning}{identity},"version":"{version}"'

    def start(self, now: str, span: str, is_probe: bool) -> str:
        """A request's first line."""
        level = "DEBUG" if is_probe else "INFO"
        scope = f'{span},"name":"http_request"}}'
        return (
            f'{{"timestamp":"{now}","level":"{level}",{_START_JSON}'
            f'"span":{scope},"spans":[{scope}]}}'
        )

    def more(self, name: str, value: str) -> str:
        """One more member behind the message."""
        return f',"{name}":{quoted(value)}'

    def end(
        self,
        now: str,
        span: str,
        level: str,
        message: str,
        status: int,
        latency: int,
        more: str,
    ) -> str:
        """A request's last line."""
        scope = (
            f'{span},"status_code":{status},"latency":{latency},'
            f'"name":"http_request"}}'
        )
        return (
            f'{{"timestamp":"{now}","level":"{level}",'
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
