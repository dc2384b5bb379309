from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
import ujson

from smgproxy.fleet.file_discovery import MAX_MANIFEST_BYTES, FileDiscovery
from tests.fleet.discovered import A, B, C, Stage


class File(Stage):
    """A fleet that follows a file; a minute between two readings in any case."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        super().__init__(patch)
        self.path = folder / "workers.json"
        self._writes = 0
        self.discovery = FileDiscovery(
            str(self.path),
            60,
            None,
            self.reconciler,
            self.stats,
            self.background.sleep,
        )

    def write(self, *urls: str) -> None:
        """A new manifest, in place of the old one."""
        workers = [{"url": url} for url in urls]
        self.write_bytes(ujson.dumps({"version": 1, "workers": workers}).encode())

    def write_bytes(self, data: bytes) -> None:
        """New contents, with a time of change of their own."""
        self.path.write_bytes(data)
        self._writes += 1
        os.utime(self.path, ns=(self._writes, self._writes))

    def start(self) -> None:
        """Begin to watch."""
        self.background.spawn(self.discovery.watch())


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> File:
    return File(monkeypatch, tmp_path)


def test_workers_follow_the_file_within_a_second(it: File) -> None:
    it.write(A)
    it.start()
    assert it.ready == [A]
    it.write(A, B)
    it.clock.advance(1)
    assert it.ready == [A, B]
    it.write(B)
    it.clock.advance(1)
    assert it.ready == [B]


def test_the_file_may_appear_later(it: File, caplog: pytest.LogCaptureFixture) -> None:
    it.start()
    it.clock.advance(30)
    assert caplog.messages == [
        f"discovery file {it.path} is unreadable: No such file or directory; "
        "no workers discovered yet"
    ]
    it.write(A)
    it.clock.advance(1)
    assert it.ready == [A]


def test_deleting_the_file_removes_nothing(it: File) -> None:
    it.write(A)
    it.start()
    it.path.unlink()
    it.clock.advance(120)
    assert it.ready == [A]
    assert it.stats.snapshot_errors["unreadable"] > 0


def test_no_workers_in_the_file_removes_all(it: File) -> None:
    it.write(A, B)
    it.start()
    it.write()
    it.clock.advance(7)
    assert it.urls == []


def test_a_wrong_file_keeps_the_last_good_one_and_says_so_once(
    it: File, caplog: pytest.LogCaptureFixture
) -> None:
    it.write(A)
    it.start()
    it.write_bytes(b"{")
    it.clock.advance(200)
    assert it.ready == [A]
    assert it.stats.snapshot_errors == {"invalid": 4, "unreadable": 0}
    warnings = [one.message for one in caplog.records if one.levelname == "WARNING"]
    assert warnings == [
        f"discovery file {it.path} is invalid: Input data was truncated; "
        "the last good one stays in force, 1 workers"
    ]
    with caplog.at_level(logging.INFO):
        it.write(B)
        it.clock.advance(1)
    assert f"discovery file {it.path} can be used again" in caplog.messages
    assert it.ready == [B]


def test_a_file_that_did_not_change_is_read_again_every_interval(it: File) -> None:
    it.write(A)
    it.start()
    for _ in range(2):  # one that others removed comes back by then
        it.fleet.remove(it.registry.all()[0].id)
        it.clock.advance(59)
        assert it.urls == []
        it.clock.advance(1)
        assert it.ready == [A]


def test_a_file_replaced_by_renaming_is_noticed_whatever_its_time(it: File) -> None:
    it.write(A)
    it.start()
    found = it.path.stat()
    other = it.path.with_suffix(".new")
    other.write_bytes(it.path.read_bytes().replace(b"/a:1", b"/b:1"))
    os.utime(other, ns=(found.st_mtime_ns, found.st_mtime_ns))
    other.rename(it.path)
    it.clock.advance(6)
    assert it.urls == [B]


def test_a_pipe_is_no_file_and_stops_nobody(it: File) -> None:
    os.mkfifo(it.path)
    it.start()
    assert it.stats.snapshot_errors["invalid"] == 1


def test_a_folder_or_a_huge_file_is_refused(it: File) -> None:
    it.path.mkdir()
    it.start()
    it.path.rmdir()
    with it.path.open("wb") as file:
        file.truncate(MAX_MANIFEST_BYTES + 1)
    it.clock.advance(1)
    assert it.stats.snapshot_errors == {"invalid": 2, "unreadable": 0}


def test_a_changed_entry_is_drained_and_then_registered_anew(it: File) -> None:
    it.write(A, C)
    it.start()
    entry = {"url": A, "model_id": "other"}
    it.write_bytes(ujson.dumps({"version": 1, "workers": [entry]}).encode())
    it.clock.advance(1)
    assert it.ready == []
    it.clock.advance(5)
    assert it.ready == [A]
    [worker] = it.registry.all()
    assert worker.model_id == "other"
