"""How the gateway logs: one line an event, text or JSON, to stderr and a daily file."""

from __future__ import annotations

import json.encoder
import logging
import sys
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import CodeType

from smgproxy.telemetry.options import TelemetryOptions
from smgproxy.telemetry.output import DailyFile, Lines, Output, Outputs

OFF = logging.CRITICAL + 10
LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "off": OFF,
}
STDERR = 2
_ROOT = f"{Path(__file__).parents[2]}/"
_SHORT = {"WARNING": "WARN", "CRITICAL": "ERROR"}


def printable(text: str) -> str:
    """Text that cannot end its line, colour a terminal or pass for another field."""
    if text.isascii() and text.isprintable():
        return text
    return text.encode("ascii", "backslashreplace").decode().translate(_CONTROL)


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


# A JSON string, all ASCII; text lines quote in the same way.
quoted = json.encoder.encode_basestring_ascii


def stamp(moment: float) -> str:
    """``YYYY-MM-DD HH:MM:SS``, UTC."""
    return _stamp(int(moment))


@lru_cache(maxsize=2)  # thousands of lines have the same second
def _stamp(second: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(second))


def place_of(code: CodeType) -> tuple[str, int]:
    """File and line of a function, as they stand in log lines."""
    return place(code.co_filename), code.co_firstlineno


def place(path: str) -> str:
    """A source file's path from its package on."""
    return path.removeprefix(_ROOT)


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
        file, line = printable(place(record.pathname)), record.lineno
        if not self._is_json:
            return (
                f"{stamp(record.created)} {level:>5} {record.name}: {file}: {line}: "
                + printable(message)
            )
        return (
            f'{{"timestamp":"{stamp(record.created)}","level":"{level}",'
            f'"message":{quoted(message)},"target":{quoted(record.name)},'
            f'"filename":{quoted(file)},"line_number":{line}}}'
        )


def drop_notice(is_json: bool) -> Callable[[int], str]:
    """What makes the line that stands for lines which found no reader."""
    formatter = LogFormatter(is_json)

    def line(dropped: int) -> str:
        text = f"{dropped} log lines were dropped: nobody took them in time"
        at = __file__, line_number, text, (), None
        return formatter.format(logging.LogRecord(__name__, logging.WARNING, *at))

    _, line_number = place_of(line.__code__)
    return line


def open_outputs(options: TelemetryOptions) -> Outputs:
    """Where all lines go: standard error, and with --log-dir a file of the day too.

    Raises OSError when that file cannot be written.
    """
    notice = drop_notice(options.log_json)
    outputs: list[Output | DailyFile] = []
    # Without a standard error of its own, 2 may become any file's or socket's number.
    if sys.stderr is not None:
        outputs.append(Output(STDERR, notice))
    if options.log_dir is not None:
        daily = DailyFile(Path(options.log_dir), notice)
        daily.open()
        outputs.append(daily)
    return Outputs(outputs)


def set_up_logs(options: TelemetryOptions, lines: Lines) -> Callable[[], None]:
    """Send what all rooms log to ``lines``; returns what undoes it."""
    handler = logging.StreamHandler(lines)
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
