"""How the gateway logs: one line an event, text or JSON, to stderr or a daily file."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import ujson

from smgproxy.telemetry.options import TelemetryOptions

OFF = logging.CRITICAL + 10
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": OFF,
}
_SHORT = {"WARNING": "WARN", "CRITICAL": "ERROR"}


def printable(text: str) -> str:
    """Text that cannot end its line, colour a terminal or pass for another field."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("ascii", "backslashreplace").decode().translate(_CONTROL)


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


def stamp(moment: float) -> str:
    """``YYYY-MM-DD HH:MM:SS``, UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(moment))


def json_line(moment: float, level: str, target: str, fields: dict[str, object]) -> str:
    """One JSON object, with the contract's leading keys."""
    when = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment))
    millis = int(moment % 1 * 1000)
    row = {"timestamp": f"{when}.{millis:03d}Z", "level": level, **fields}
    row["target"] = target
    return ujson.dumps(row, ensure_ascii=True, escape_forward_slashes=False)


class LogFormatter(logging.Formatter):
    """A record of the logging module as one line; a traceback stays on it too."""

    def __init__(self, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        level = _SHORT.get(record.levelname, record.levelname)
        message = record.getMessage()
        if record.exc_info:
            message += "\n" + self.formatException(record.exc_info)
        if self._is_json:
            return json_line(record.created, level, record.name, {"message": message})
        text = printable(message)
        return f"{stamp(record.created)} {level:>5} {record.name}: {text}"


class LogStream:
    """Where lines go: stderr, or the file of the day under --log-dir (UTC)."""

    __slots__ = ("_folder", "_day", "_file")

    def __init__(self, folder: str | None) -> None:
        self._folder = None if folder is None else Path(folder)
        self._day = ""
        self._file: TextIO | None = None

    def write(self, text: str) -> None:
        """Write whole lines; a log that cannot be written must not stop the gateway."""
        try:
            self._target().write(text)
        except (OSError, ValueError):
            pass

    def flush(self) -> None:
        """Part of what logging.StreamHandler expects."""
        try:
            self._target().flush()
        except (OSError, ValueError):
            pass

    def close(self) -> None:
        """Close the file of the day; what cannot be written any more is lost."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                pass

    def _target(self) -> TextIO:
        if self._folder is None:
            return sys.stderr
        day = time.strftime("%Y-%m-%d", time.gmtime())
        if self._file is None or day != self._day:
            self.close()
            self._folder.mkdir(parents=True, exist_ok=True)
            self._day = day
            path = self._folder / f"smg.{day}"
            self._file = path.open("a", encoding="utf-8", buffering=1)
        return self._file


def set_up_logs(options: TelemetryOptions, stream: LogStream) -> Callable[[], None]:
    """Send what all rooms log to ``stream``; returns what undoes it."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LogFormatter(options.log_json))
    level = LEVELS[options.log_level]
    # What libraries say is of interest when it is bad.
    handler.setLevel(OFF if level >= OFF else logging.NOTSET)
    root, ours = logging.getLogger(), logging.getLogger("smgproxy")
    root.addHandler(handler)
    ours.setLevel(level)

    def undo() -> None:
        root.removeHandler(handler)
        ours.setLevel(logging.NOTSET)

    return undo
