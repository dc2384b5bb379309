"""The access log: one line a request, at its end, written many at a time."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from smgproxy.telemetry.logs import LEVELS, json_line, printable, stamp

# Lines that may wait for the next flush; a flood beyond it loses lines, not memory.
MAX_WAITING = 20_000
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


class Lines(Protocol):
    """Where finished lines go."""

    def write(self, text: str) -> None:
        """Take whole lines."""

    def flush(self) -> None:
        """Pass them on."""


class RequestLog:
    """Keeps lines until ``flush``, which a timer calls about twice a second.

    INFO below 400, WARN for 4xx, ERROR for 5xx; probes are DEBUG. Credentials, query
    strings and bodies never get here.
    """

    __slots__ = ("_level", "_is_json", "_stream", "_waiting", "dropped")

    def __init__(self, level: str, is_json: bool, stream: Lines) -> None:
        self._level = LEVELS[level]
        self._is_json = is_json
        self._stream = stream
        self._waiting: list[str] = []
        self.dropped = 0

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
        if len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            return
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

    def flush(self) -> None:
        """Write what waits, with one write."""
        if self.dropped:
            dropped, self.dropped = self.dropped, 0
            text = f"{dropped} lines were dropped, more requests ended than fit"
            now = time.time()
            self._waiting.append(
                json_line(now, "WARN", _TARGET, {"message": text})
                if self._is_json
                else f"{stamp(now)}  WARN {_TARGET}: {text}"
            )
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self._stream.write("\n".join(waiting) + "\n")
            self._stream.flush()


def _level_of(template: str, status: int, error_code: str) -> int:
    if error_code == "stream_error":
        return logging.ERROR  # the status was sent before the stream broke
    if template in _PROBES:
        return logging.DEBUG
    if status >= 500:
        return logging.ERROR
    return logging.WARNING if status >= 400 else logging.INFO
