"""Where log lines go: the file of the day, and what happens when it cannot be had."""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ujson

from smgproxy import fleet
from smgproxy.telemetry.logs import LogFormatter, drop_notice, open_outputs, set_up_logs
from smgproxy.telemetry.options import TelemetryOptions
from smgproxy.telemetry.output import DailyFile

MIDNIGHT = 1_767_312_000.0  # 2026-01-02 00:00:00 UTC


class Clock:
    """What time.gmtime is told."""

    def __init__(self) -> None:
        self.now = MIDNIGHT


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made, real = Clock(), time.gmtime
    monkeypatch.setattr(
        "smgproxy.telemetry.output.time.gmtime",
        lambda secs=None: real(made.now if secs is None else secs),
    )
    return made


def daily(folder: Path) -> DailyFile:
    return DailyFile(folder, lambda dropped: f"({dropped} lost)")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """No test may leave the logging module changed."""
    handlers, level = list(logging.getLogger().handlers), logging.getLogger().level
    yield
    assert logging.getLogger().handlers == handlers
    assert logging.getLogger().level == level
    assert logging.getLogger("smgproxy").level == logging.NOTSET


def test_the_file_changes_at_midnight_utc(tmp_path: Path, clock: Clock) -> None:
    stream = daily(tmp_path)
    for clock.now, text in ((MIDNIGHT - 1, "a\n"), (MIDNIGHT, "b\n")):
        stream.write(text)
    stream.close()
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert written == {"smg.2026-01-01": "a\n", "smg.2026-01-02": "b\n"}


def test_a_file_of_today_is_added_to(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "smg.2026-01-02").write_text("before\n")
    stream = daily(tmp_path)
    stream.write("after\n")
    stream.close()
    assert (tmp_path / "smg.2026-01-02").read_text() == "before\nafter\n"


def test_a_line_is_in_the_file_once_it_is_flushed(tmp_path: Path, clock: Clock) -> None:
    stream = daily(tmp_path)
    stream.write("a\n")
    stream.flush()
    assert (tmp_path / "smg.2026-01-02").read_text() == "a\n"
    stream.close()


def test_a_full_disk_loses_lines_and_nothing_else(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "smg.2026-01-02").symlink_to("/dev/full")
    stream = daily(tmp_path)
    for _ in range(3):
        stream.write("lost\n" * 5000)
        stream.flush()
    clock.now += 86400
    stream.write("kept\n")
    stream.close()
    assert (tmp_path / "smg.2026-01-03").read_text() == "kept\n(15000 lost)\n"
    assert stream.lost == 15000


def test_closing_on_a_full_disk_is_no_error(tmp_path: Path, clock: Clock) -> None:
    (tmp_path / "smg.2026-01-02").symlink_to("/dev/full")
    stream = daily(tmp_path)
    stream.write("lost\n")
    stream.close()
    stream.close()


def test_a_folder_that_comes_back_is_written_again(
    tmp_path: Path, clock: Clock
) -> None:
    blocked = tmp_path / "logs"
    blocked.write_text("")
    stream = daily(blocked)
    stream.write("lost\n")
    stream.flush()
    blocked.unlink()
    stream.write("kept\n")
    stream.close()
    assert (blocked / "smg.2026-01-02").read_text() == "kept\n(1 lost)\n"
    assert stream.lost == 1


@pytest.mark.parametrize(
    ("level", "ours", "library"),
    [
        ("debug", ["DEBUG", "INFO", "WARN", "ERROR"], ["WARN", "ERROR"]),
        ("info", ["INFO", "WARN", "ERROR"], ["WARN", "ERROR"]),
        ("warn", ["WARN", "ERROR"], ["WARN", "ERROR"]),
        ("error", ["ERROR"], ["WARN", "ERROR"]),
        ("off", [], []),
    ],
)
def test_levels_are_ours_and_libraries_speak_when_it_is_bad(
    tmp_path: Path, clock: Clock, level: str, ours: list[str], library: list[str]
) -> None:
    options = TelemetryOptions(log_level=level, log_json=True, log_dir=str(tmp_path))
    stream = open_outputs(options)
    undo = set_up_logs(options, stream)
    for name in ("smgproxy.fleet", "some.library"):
        log = logging.getLogger(name)
        for number in (10, 20, 30, 40):
            log.log(number, "said")
    undo()
    stream.close()
    path = tmp_path / "smg.2026-01-02"
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [ujson.loads(line) for line in lines]
    said = [(row["target"], row["level"]) for row in rows]
    assert said == [
        *(("smgproxy.fleet", one) for one in ours),
        *(("some.library", one) for one in library),
    ]


def test_a_record_is_time_level_target_place_and_message() -> None:
    file = inspect.getfile(fleet)
    record = logging.LogRecord(
        "smgproxy.fleet", logging.WARNING, file, 7, "worker %s left", ("w",), None
    )
    record.created = MIDNIGHT + 0.25
    assert LogFormatter(is_json=False).format(record) == (
        "2026-01-02 00:00:00  WARN smgproxy.fleet: smgproxy/fleet/__init__.py: 7: "
        "worker w left"
    )
    assert LogFormatter(is_json=True).format(record) == (
        '{"timestamp":"2026-01-02 00:00:00","level":"WARN",'
        '"message":"worker w left","target":"smgproxy.fleet",'
        '"filename":"smgproxy/fleet/__init__.py","line_number":7}'
    )


@pytest.mark.parametrize("is_json", [False, True])
def test_lines_that_were_dropped_are_told_in_a_line_like_any_other(
    is_json: bool,
) -> None:
    line = drop_notice(is_json)(7)
    assert "7 log lines were dropped" in line
    assert "WARN" in line
    assert "smgproxy/telemetry/logs.py" in line


@pytest.mark.parametrize("is_json", [False, True])
@pytest.mark.parametrize(
    "evil", ["a\nb", "a\r\nb", "\x1b[2J", "\x00", "\u2028", "é", "\udcff", "\x9b31m"]
)
def test_whatever_a_record_says_stays_one_line_of_ascii(
    is_json: bool, evil: str
) -> None:
    record = logging.LogRecord("smgproxy.x", 40, "", 0, "said %s", (evil,), None)
    line = LogFormatter(is_json).format(record)
    assert line.isascii()
    assert line.isprintable()
    if is_json:
        assert ujson.loads(line)["message"] == f"said {evil}"


def test_a_folder_is_written_beside_standard_error(
    tmp_path: Path, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    outputs = open_outputs(TelemetryOptions(log_dir=str(tmp_path / "new" / "logs")))
    outputs.write("a\n")
    outputs.close()
    assert capfd.readouterr().err == "a\n"
    assert (tmp_path / "new" / "logs" / "smg.2026-01-02").read_text() == "a\n"


def test_a_folder_that_cannot_be_written_is_told_when_it_is_opened(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        open_outputs(TelemetryOptions(log_dir=str(tmp_path / "file")))


def test_a_closed_standard_error_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr", None)
    outputs = open_outputs(TelemetryOptions())
    outputs.write("a\n")
    outputs.close()
    assert capfd.readouterr().err == ""
