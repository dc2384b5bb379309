"""The access log: one line a request, at its end, written many at a time."""

from __future__ import annotations

import logging
import time

from smgproxy.telemetry.logs import LEVELS, json_line, printable, stamp
from smgproxy.telemetry.output import Lines

# Lines that wait for a timer; more are passed on at once, and bounded there.
MAX_WAITING = 1000
_PROBES = frozenset(("/health", "/liveness", "/readiness"))
_TARGET = "smgproxy.request"
# The name of a level, and what a line of that level says (contract, logging).
_SAYS = {
    logging.DEBUG: ("DEBUG", "finished probe request"),
    logging.INFO: ("INFO", "finished processing request"),
    logging.WARNING: ("WARN", "request failed with client error"),
    logging.ERROR: ("ERROR", "request failed with server error"),
}
_BROKEN = "response stream failed after the head was sent"


class RequestLog:
    """Keeps lines until ``flush``, which a timer calls about twice a second.

    INFO below 400, WARN for 4xx, ERROR for 5xx; probes are DEBUG. Credentials, query
    strings and bodies never get here.
    """

    __slots__ = ("_level", "_is_json", "_lines", "_waiting")

    def __init__(self, level: str, is_json: bool, lines: Lines) -> None:
        self._level = LEVELS[level]
        self._is_json = is_json
        self._lines = lines
        self._waiting: list[str] = []

    def wants(self, template: str, status: int, error_code: str) -> bool:
        """Whether a request that ended so is to be recorded."""
        return _level_of(template, status, error_code) >= self._level

    def record(
        self,
        *,
        method: str,
        path: str,
        template: str,
        status: int,
        error_code: str,
        request_id: bytes,
        worker: str,
        secs: float,
    ) -> None:
        """Keep one line."""
        level, message = _SAYS[_level_of(template, status, error_code)]
        method, path = printable(method), printable(path)
        identity = request_id.decode("ascii", "replace")
        micros = int(secs * 1_000_000)
        if self._is_json:
            if error_code == "stream_error":
                message = _BROKEN
            fields: dict[str, object] = {
                "message": message,
                "method": method,
                "path": path,
                "status_code": status,
                "error_code": error_code,
                "request_id": identity,
                "worker": worker,
                "latency": micros,
            }
            line = json_line(time.time(), level, _TARGET, fields)
        else:
            line = (
                f"{stamp(time.time())} {level:>5} {_TARGET}: {method} {path} {status} "
                f"{micros}us request_id={identity} worker={worker or '-'}"
                f"{' error_code=' + error_code if error_code else ''}"
            )
        self._waiting.append(line)
        if len(self._waiting) >= MAX_WAITING:
            self.flush()

    def flush(self) -> None:
        """Write what waits, with one write."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._lines.write("\n".join(waiting) + "\n")
        self._lines.flush()


def _level_of(template: str, status: int, error_code: str) -> int:
    if error_code == "stream_error":
        return logging.ERROR  # the status was sent before the stream broke
    if template in _PROBES:
        return logging.DEBUG
    if status >= 500:
        return logging.ERROR
    return logging.WARNING if status >= 400 else logging.INFO
