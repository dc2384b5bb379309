"""The access log: a line when a request begins and one at its end, many to a write."""

from __future__ import annotations

import logging
from time import time

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
# The level of a last line, its name, and what the line says (contract, logging).
_PROBED = logging.DEBUG, "DEBUG", "finished probe request"
_FINISHED = logging.INFO, "INFO", "finished processing request"
_REFUSED = logging.WARNING, "WARN", "request failed with client error"
_FAILED = logging.ERROR, "ERROR", "request failed with server error"
_BROKEN = logging.ERROR, "ERROR", "response stream failed after the head was sent"
# Clients that hang up, which is their right: nginx has such lines at info as well.
_CLIENT_CLOSED = 499
_LEFT = logging.INFO, "INFO", "client closed the request"
_PROBE_LEFT = logging.DEBUG, "DEBUG", "client closed the request"


class RequestLog:
    """Keeps lines until ``flush``, which a timer calls about twice a second.

    INFO below 400 and for 499, WARN for other 4xx, ERROR for 5xx; probes are DEBUG.
    Credentials, query strings and bodies never get here.
    """

    __slots__ = (
        *("_level", "_form", "_lines", "_waiting", "_second", "_stamp"),
        *("_around", "_workers"),
    )

    def __init__(self, level: str, is_json: bool, lines: Lines) -> None:
        self._level = LEVELS[level]
        self._form = _JsonForm() if is_json else _TextForm()
        self._lines = lines
        self._waiting: list[str] = []
        self._second = 0  # the last one something was written in, and how it is shown
        self._stamp = ""
        # What was put into words before: of requests what surrounds their id, by
        # method, template and version, of workers by URL. Both are few.
        self._around: dict[tuple[str, str, str], tuple[str, str]] = {}
        self._workers: dict[str, str] = {}

    def started(self, head: RequestHead, template: str, request_id: bytes) -> str:
        """Keep the line of a request that began.

        Returns what its last line repeats; nothing when neither line is wanted so far.
        """
        is_probe = template in _PROBES
        if self._level > (logging.DEBUG if is_probe else logging.INFO):
            return ""
        span = self._span(head, template, request_id)
        self._keep(self._form.start(span, is_probe))
        return span

    def ended(
        self,
        span: str,
        head: RequestHead,
        template: str,
        request_id: bytes,
        status: int,
        error_code: str,
        worker: str,
        secs: float,
        served_model: str = "",
    ) -> None:
        """Keep the line of a request that is over; ``span`` as ``started`` gave it."""
        if error_code == "stream_error":
            number, level, message = _BROKEN  # though its status was a good one
        elif template in _PROBES:
            left = status == _CLIENT_CLOSED
            number, level, message = _PROBE_LEFT if left else _PROBED
        else:
            number, level, message = _ENDINGS[status]
        if number < self._level:
            return
        form = self._form
        more = form.more("error_code", error_code) if error_code else ""
        if worker:
            more += self._workers.get(worker) or self._worker(worker)
        if served_model:
            more += form.more("served_model", served_model)
        if not span:
            span = self._span(head, template, request_id)
        latency = int(secs * 1_000_000)
        self._keep(form.end(span, level, message, status, latency, more))

    def flush(self) -> None:
        """Write what waits, with one write."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._lines.write("\n".join(waiting) + "\n")
        self._lines.flush()

    def _keep(self, line: str) -> None:
        """Keep a line that still lacks its time."""
        now = int(time())
        if now != self._second:
            self._second, self._stamp = now, self._form.stamp(now)
        waiting = self._waiting
        waiting.append(self._stamp + line)
        if len(waiting) >= MAX_WAITING:
            self.flush()

    def _span(self, head: RequestHead, template: str, request_id: bytes) -> str:
        """The words for a request, still open at the end."""
        method, path = head.method, head.path
        if head.is_http2:
            version = "HTTP/2.0"
        else:
            version = "HTTP/1.0" if head.is_http10 else "HTTP/1.1"
        if path == template and method in METHODS:
            key = (method, template, version)
            around = self._around.get(key)
            if around is None:
                around = self._around[key] = self._form.around(*key)
        else:
            # The client's own spelling: of those there may be any number.
            around = self._form.around(method, path, version)
        before, behind = around
        return f"{before}{quoted(request_id.decode())}{behind}"

    def _worker(self, url: str) -> str:
        if len(self._workers) >= MAX_WORKERS:
            self._workers.clear()
        shown = self._workers[url] = self._form.more("worker", url)
        return shown


def _ending(status: int) -> tuple[int, str, str]:
    if status < 400:
        return _FINISHED
    if status >= 500:
        return _FAILED
    return _LEFT if status == _CLIENT_CLOSED else _REFUSED


_ENDINGS = [_ending(status) for status in range(1000)]


class _TextForm:
    """``TIME LEVEL http_request{...}: TARGET: FILE: LINE: MESSAGE ...`` (contract)."""

    def stamp(self, second: int) -> str:
        """What a line begins with."""
        return stamp(second)

    def around(self, method: str, path: str, version: str) -> tuple[str, str]:
        """The words for a request, before and behind its id; still open at the end."""
        before = (
            f"http_request{{method={printable(method)} path={printable(path)} "
            f'version={version} module="smg" request_id='
        )
        return before, ""

    def start(self, span: str, is_probe: bool) -> str:
        """A request's first line, behind its time."""
        return f"{_PADDED['DEBUG' if is_probe else 'INFO']}{span}{_START_TEXT}"

    def more(self, name: str, value: str) -> str:
        """One more fact behind the message."""
        return f" {name}={quoted(value)}"

    def end(
        self, span: str, level: str, message: str, status: int, latency: int, more: str
    ) -> str:
        """A request's last line, behind its time."""
        return (
            f"{_PADDED[level]}{span} status_code={status} "
            f"latency={latency}{_END_TEXT}{message}{more}"
        )


class _JsonForm:
    """One object a line (contract)."""

    def stamp(self, second: int) -> str:
        """What a line begins with."""
        return f'{{"timestamp":"{stamp(second)}"'

    def around(self, method: str, path: str, version: str) -> tuple[str, str]:
        """A request's members, before and behind its id; still open at the end."""
        before = (
            f'{{"method":{quoted(method)},"module":"smg","path":{quoted(path)},'
            f'"request_id":'
        )
        return before, f',"version":"{version}"'

    def start(self, span: str, is_probe: bool) -> str:
        """A request's first line, behind its time."""
        level = "DEBUG" if is_probe else "INFO"
        scope = f'{span},"name":"http_request"}}'
        return f',"level":"{level}",{_START_JSON}"span":{scope},"spans":[{scope}]}}'

    def more(self, name: str, value: str) -> str:
        """One more member behind the message."""
        return f',"{name}":{quoted(value)}'

    def end(
        self, span: str, level: str, message: str, status: int, latency: int, more: str
    ) -> str:
        """A request's last line, behind its time."""
        scope = (
            f'{span},"status_code":{status},"latency":{latency},'
            f'"name":"http_request"}}'
        )
        return (
            f',"level":"{level}","message":"{message}"{more},{_END_JSON}'
            f'"span":{scope},"spans":[{scope}]}}'
        )


def _place_text(target: str, place: tuple[str, int]) -> str:
    return f"}}: {target}: {place[0]}: {place[1]}: "


def _place_json(target: str, place: tuple[str, int]) -> str:
    return f'"target":"{target}","filename":"{place[0]}","line_number":{place[1]},'


# As wide as the longest, a blank on either side.
_PADDED = {level: f" {level:>5} " for level in ("DEBUG", "INFO", "WARN", "ERROR")}
_STARTED_AT = place_of(RequestLog.started.__code__)
_ENDED_AT = place_of(RequestLog.ended.__code__)
_START_TEXT = _place_text(_REQUEST, _STARTED_AT) + _STARTED
_END_TEXT = _place_text(_RESPONSE, _ENDED_AT)
_START_JSON = f'"message":"{_STARTED}",' + _place_json(_REQUEST, _STARTED_AT)
_END_JSON = _place_json(_RESPONSE, _ENDED_AT)
